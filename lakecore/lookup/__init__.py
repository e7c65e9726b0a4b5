"""This package looks up rows by key: for a compaction the rows that higher levels of a bucket have for the
keys of a few new files, and for point queries (`query`) the current row of each key.

The two do not share the reading of files. A compaction has its keys in order and needs each of them once: it
reads the levels above forward, beside the merge, and of a file only the pages that enclose its keys. A point
query asks for the same file again and again in any order, so that a copy that is made for it pays.
"""
