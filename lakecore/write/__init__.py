"""Batches of rows to data files, as commit messages. Nothing is visible before a commit.

`rows/` brings what a caller gave to rows of the table, and sorts and spills them; `buckets/` decides where
each row goes; `files/` writes the files of a bucket; `update/` changes rows that are there. `table_write`
puts them together.
"""
