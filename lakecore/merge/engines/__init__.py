"""This package has the merge engines: they decide how rows of one key become one row, a column at a time."""
