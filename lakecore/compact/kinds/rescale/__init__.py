"""This package gives the partitions of a table with fixed buckets another number of buckets.

Every row of a partition goes to its new bucket as it is: with its sequence number and kind, on its level, as
part of the same sorted run. Nothing is merged, so no merge engine takes part, level 0 stays to be compacted,
and no changelog is skipped. (Java Paimon reads the merged rows and writes them as new ones.) One OVERWRITE
snapshot, the kind by which the format lets a bucket count change, removes just the files that were read: any
file that others brought to the partition meanwhile is a conflict, and the partition is planned again.
"""
