"""This package has what catalogs of one warehouse have in common: databases, tables, drops, defaults."""
