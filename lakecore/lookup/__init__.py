"""This package looks up rows by key: for a compaction the rows that higher levels of a bucket have for the
keys of a few new files, and for point queries (`query`) the current row of each key.

The two do not share the reading of files. A compaction has its keys in order and needs each of them once: it
reads the levels above forward, beside the merge, and of a file only the pages that enclose its keys. A point
query asks for the same file again and again in any order, so that a copy that is made for it pays.

Measured on 1 million rows of five columns on the last level, in CPU time of two busy cores: the lookups of a
compaction of 1,000 keys took 0.09 s, of 100,000 keys 0.11 s; a query that first makes its copy took 0.48 s
and 0.45 s. So a copy would pay from about the fifth compaction on that meets the same file on the same
machine, and only while no compaction rewrites that file.
"""
