"""This package has the sensors of tables."""
