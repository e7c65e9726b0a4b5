"""This package reads splits: schema evolution, deletion vectors, file indexes, and merges of sorted runs, in
bounded memory.

`columns/` converts values to the types of the table, `file/` reads one data file, `split/` a split, and
`source/` everything that has rows (a snapshot, the changes between two, a stream). `context` is what a reader
needs of a table, and can be pickled.
"""
