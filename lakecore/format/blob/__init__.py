"""This package has blob files, and the values of a BLOB column that refer to bytes elsewhere."""
