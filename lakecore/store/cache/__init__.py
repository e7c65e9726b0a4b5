"""This package keeps what catalogs have read in memory, for the tables of one catalog.

`manifest_cache` has decoded manifests, manifest lists and index manifests for the plans of reads. These files
never change, and their names hold a UUID that no other file gets, so a plan with them is that of storage.

`table_cache` has what others can change, because a table can be dropped and created again, and a rollback
gives the id of a snapshot to another one: schemas, snapshots and lists of partitions. It exists by option
only, and serves scans and lists of partitions only, by stores whose storage refuses changes
(`reading_stores`). Commits, chores, proofs and `fsck` read everything from storage.
"""
