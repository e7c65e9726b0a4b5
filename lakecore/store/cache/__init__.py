"""This package keeps decoded manifests in memory for the plans of reads, for the tables of one catalog.

Only files that never change are kept: manifests, manifest lists and index manifests, whose names hold a UUID
that no other file gets. Schemas, snapshots, hints and lists of names are read from storage each time, for a
table can be dropped and created again, and a rollback gives the id of a snapshot to another one. So a plan
with the cache has the files of a plan without it. Commits, chores, proofs and `fsck` read all files from
storage.
"""
