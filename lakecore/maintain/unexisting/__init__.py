"""This package finds files that a table names and that do not exist, and removes the references to them.
Rows are lost knowingly only.

A file counts as missing when the listing of its directory lacks it and its own status says so too, both again
just before the commit. An error of storage is never taken for an answer. Older snapshots keep naming the
file.
"""
