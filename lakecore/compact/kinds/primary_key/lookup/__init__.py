"""This package has merges that need the older rows of their keys: changelog producers `lookup` and
`full-compaction`, deletion vectors, and merge engine first-row.

`pick` divides a pick into units with the files to look up in, `run` is the merge of one unit, `merge` reduces
rows of several levels to the new row and the row before, `changelog` writes the difference.
"""
