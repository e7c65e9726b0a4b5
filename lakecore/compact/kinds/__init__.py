"""This package has the ways to rewrite files of a table, one package each; they share
`lakecore.compact.engine`.

- `append`: join small files of tables without a key.
- `data_evolution`: join files that contain different columns of the same rows (a pick is one of `append`).
- `sort`: cluster the rows of tables without a key.
- `primary_key`: merge sorted runs of a bucket.
- `clustered_primary_key`: tables with the option `pk-clustering-override`. A fresh file is merged by
  `primary_key`, files above level 0 are sorted by `sort`; it is the only kind that uses others for its units.
- `postpone`: assign buckets to postponed rows.
- `rescale`: change the number of buckets of a partition.
- `file_index`: build the file indexes that data files lack.
"""
