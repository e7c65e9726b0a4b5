"""This package reads format tables (`type=format-table`): the files below a directory are their rows, and
directories named `dt=1` are their partitions. They have no snapshots.

`rules` has the options, `listing` the files, `lines`, `csv_fields`, `json_values` and `text_values` take text
files apart, `directory_rows` makes batches, and `format_table` is the table.
"""
