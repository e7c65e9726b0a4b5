"""From splits to rows: schema evolution, deletion vectors, file indexes, and merges of sorted runs. Bounded
memory.

`columns/` brings values to the types of the table, `file/` reads one data file, `split/` a split, and
`source/` all that has rows (a snapshot, the changes between two, a stream). `context` is what a reader
needs of a table, and pickles; `ahead` reads in the background.
"""
