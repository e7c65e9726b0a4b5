"""This package has the operators that work on one table, a module each area."""
