"""This package has lookup tables: they keep the rows of a table close by, follow its snapshots, and answer
which rows have given values in the columns of a join.

Paimon's lookup tables are the model (FileStoreLookupFunction, FullCacheLookupTable,
PrimaryKeyPartialLookupTable).

The rows are stored in lakecore's own runs, not in a kept embedded store: a run has Arrow batches and a
sorted index of 64-bit hashes, so that many keys are looked up at once in columns, and Arrow rows need no
conversion. A run never changes. A refresh adds a small run and marks the rows that it replaces; small runs
are merged. A lookup sees one state from begin to end, whatever refreshes go on, and takes no lock.
"""
