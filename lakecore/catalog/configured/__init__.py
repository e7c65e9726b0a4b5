"""This package has catalogs by name: their names, where definitions are kept, and several at once."""
