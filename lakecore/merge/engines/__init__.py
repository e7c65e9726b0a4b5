"""Merge engines: how rows of one key become one row, a column at a time."""
