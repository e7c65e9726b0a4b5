"""This package encodes and searches file indexes, deletion vectors and hash indexes. No IO.

`definition` tells which columns have which indexes, `builder` makes the indexes of one file while its rows
are written, `container` has them in one blob. Each type of index has a module that writes and searches it:
`bitmap`, `bsi`, `range_bitmap` (the latter two are bit slices, `slices`) and `bloom_filter`. `search`
combines what they say of a predicate; in doubt a row can match. `deletion_vectors` converts index files of
deleted rows.

The bytes are those of Java. A search never leaves out a row that matches: an index that cannot be decoded
is damage, not a miss.
"""
