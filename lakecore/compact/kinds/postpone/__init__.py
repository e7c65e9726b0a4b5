"""Tables with `bucket = -2`: postponed rows wait in files without a bucket until a compaction assigns one.

`plan` chooses the number of buckets of each partition, `run` writes the rows of one part of a partition to
their buckets, `apply` proves that every row arrived.
"""
