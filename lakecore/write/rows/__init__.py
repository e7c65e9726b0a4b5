"""This package converts the caller's rows to rows of the table: types, defaults, row kinds; sorting, and
spilling to disk.
"""
