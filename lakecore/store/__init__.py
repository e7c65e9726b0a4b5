"""This package has the metadata stores of the directory of a table. `table_stores` holds all of them in one
value, which everything above takes.

`paths` is the layout. `snapshots`, `schemas`, `changelogs`, `tags`, `branches` and `consumers` read and
write the records of one branch; `manifests` and `indexes` the files that snapshots name, for all branches.
A record is created atomically, and never changed afterwards, except for hints, consumers and tags that are
replaced. The hints LATEST and EARLIEST save a listing, and are never trusted alone. `decoded_cache` saves
the decoding of small files, not their reading.

`two_writers` and `settle_time` say what holds beside writers that rename; `table_lock` and
`version_management` are the protocols of catalogs that lock, or that commit themselves.
"""
