"""This package decides which snapshot, which files and which splits a batch read or a stream needs. It opens
manifests, and no data file.

1. `startup`, `time_travel`, `incremental` and `stream_start` say where a read begins: one checked value from
   the `scan.*` options.
2. `partition_request` and `filters` say which manifests and entries are needed; `scanner` reads them as
   columns.
3. `pruning` leaves files out by statistics. In doubt a file is kept.
4. `plan` packs files into splits, as Java does; `row_ranges` and `changelog_order` do it for data evolution
   and for changes. A split makes the descriptions of its files on demand.

`change_scanner`, `stream_policy` and `file_monitor` follow the snapshots of a table. `support` refuses what
this release cannot read or write, before anything is read. A plan costs the decoding of the manifests that
remain, some 2 us an entry, and about 0.8 kB of memory a file.
"""
