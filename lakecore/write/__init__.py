"""This package writes batches to data files and returns commit messages. Nothing is visible before a commit.

`rows/` converts, sorts and spills the rows that a caller gave; `buckets/` decides where each row goes;
`files/` writes the files of a bucket; `update/` changes existing rows. `table_write` combines them, and
`session` commits what it wrote.
"""
