"""This package has the operators that work on many tables: they name them, survey them and compact them."""
