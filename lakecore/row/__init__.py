"""This package converts rows to bytes, hashes, sort keys, directory names and JSON.

- `binary_row` and `binary_batch` are Paimon's BinaryRow, for one row and for whole columns; `hashing` and
  `bucket` say to which bucket a key belongs. A wrong hash would put a key into a bucket in which no reader
  looks for it, so that both are compared with bytes that Java wrote.
- `partition_path` and `partition_values` are the texts and the values of partitions, `sort_rule` and
  `space_curve` the orders of clustering, `json_rows` and `text_columns` the rows that people read.
- `variant` and `roaring/` are the binary forms of VARIANT values and of sets of row numbers.

Functions on one value are for keys and literals. Whatever touches every row of a table works on columns.
"""
