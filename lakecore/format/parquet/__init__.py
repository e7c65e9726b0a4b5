"""This package reads and writes Parquet data files, and single pages of them.

`reader` and `writer` go through pyarrow. `page_index`, `page_locations`, `pages` and `page_file` read ranges
of rows without decoding the rest; `thrift_compact` reads and writes footers.
"""
