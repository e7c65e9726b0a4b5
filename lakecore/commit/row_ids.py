"""This module assigns row ids to new files at commit, when the free ids are known. It is pure.

Rules of the format: a written file that stores no ids of its own gets the next ids, one per row, in the order
of the commit; blob and vector files share those of the ordinary file before them, column by column. Its rows
count as changed by the new snapshot, which its sequence numbers then name. Files of a compaction store the
ids and sequence numbers of their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lakecore.commit.conflict import Conflict
from lakecore.metadata.dedicated_columns import is_blob_file, is_ordinary_file, is_vector_file
from lakecore.metadata.manifest.data_file import EntryKind, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.snapshot import CommitKind

__all__ = ["assign_row_ids", "column_update_conflicts", "has_column_updates", "row_range_conflicts"]


def assign_row_ids(entries: ManifestEntries, snapshot_id: int, first: int) -> tuple[ManifestEntries, int]:
    """Return the delta of snapshot `snapshot_id` with row ids from `first` on, and the id after the last
    one.
    """
    added = entries.kind == EntryKind.ADD
    rows: list[ManifestEntry] = []
    shared: dict[str, int] = {}
    start = first
    for entry in entries.select(added).rows():
        file = entry.file
        if file.lacks_row_ids and is_ordinary_file(file.file_name):
            file = replace(file, first_row_id=first)
            start, shared = first, {}
            first += file.row_count
        elif file.lacks_row_ids:
            column = (file.write_cols or ("",))[0] if is_blob_file(file.file_name) else ""
            file = replace(file, first_row_id=shared.get(column, start))
            shared[column] = shared.get(column, start) + file.row_count
        if entry.file.lacks_row_ids or file.min_sequence_number == 0:
            file = replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
        rows.append(replace(entry, file=file))
    return ManifestEntries.concat([entries.select(~added), ManifestEntries.from_rows(rows)]), first


def row_range_conflicts(base: ManifestEntries, delta: ManifestEntries) -> tuple[Conflict, ...]:
    """Return files of `delta` whose rows overlap those of another file in part, in a table with data
    evolution.

    Rule of the format: two ordinary files hold either the same rows or none in common; blob and vector files
    may hold a part of them. `base` holds the live entries of the partitions that `delta` touches.
    """
    after = live_entries(ManifestEntries.concat([base, delta]), strict=False)
    after = after.select(np.array([is_ordinary_file(name.decode()) for name in after.names()], np.bool_))
    order = np.lexsort((after.row_count, after.first_row_id, after.bucket, after.partition))
    after = after.select(order[after.first_row_id[order] >= 0])
    first, stop = after.first_row_id, after.first_row_id + after.row_count
    near = (after.partition[1:] == after.partition[:-1]) & (after.bucket[1:] == after.bucket[:-1])
    same = (first[1:] == first[:-1]) & (stop[1:] == stop[:-1])
    bad = np.flatnonzero(near & ~same & (first[1:] < stop[:-1]))
    added = delta.select(delta.kind == EntryKind.ADD).rows()
    ours = {(row.partition, row.bucket, row.file.file_name) for row in added}
    conflicts = []
    for left, right in zip(after.rows(bad), after.rows(bad + 1), strict=True):
        reason = f"the row ranges of {left.file.file_name} and {right.file.file_name} overlap in part"
        places = [(row.partition, row.bucket, row.file.file_name) for row in (left, right)]
        conflicts += [Conflict(reason, *place) for place in ([p for p in places if p in ours] or places)]
    return tuple(conflicts)


def has_column_updates(kind: CommitKind, delta: ManifestEntries) -> bool:
    """Return whether the delta brings columns of rows that exist already."""
    return kind is CommitKind.APPEND and bool((delta.first_row_id >= 0).any())


def column_update_conflicts(
    base: ManifestEntries, delta: ManifestEntries, since: int
) -> tuple[Conflict, ...]:
    """Return files of `delta` with columns of rows that have moved, or were written after snapshot `since`.

    Rule of the format: the sequence number of such a file is the snapshot that wrote it, and compaction keeps
    the highest. `base` holds the live entries of the partitions that `delta` touches.
    """
    files = delta.select(delta.first_row_id >= 0).rows()
    newest: dict[tuple[bytes, int, int], tuple[int, int]] = {}
    for row in _ordinary_near(base, delta):
        where = (row.partition, row.bucket, row.file.first_row_id or 0)
        high = max(newest.get(where, (0, 0))[1], row.file.max_sequence_number)
        newest[where] = row.file.row_count, high
    starts = np.array(sorted({first for _, _, first in newest}), np.int64)
    conflicts = []
    for row in files:
        first = row.file.first_row_id or 0
        start = int(starts[max(int(np.searchsorted(starts, first, "right")) - 1, 0)]) if len(starts) else -1
        count, written = newest.get((row.partition, row.bucket, start), (0, 0))
        place = (row.partition, row.bucket, row.file.file_name)
        behind = first + row.file.row_count - start
        if behind > count or (is_ordinary_file(row.file.file_name) and (first, behind) != (start, count)):
            conflicts.append(Conflict(f"no file contains the rows of {row.file.file_name} any more", *place))
        elif written > since:
            reason = f"snapshot {written} changed the rows of {row.file.file_name}"
            conflicts.append(Conflict(reason, *place))
    newer = base.select(base.max_sequence > since).rows()
    for kind, what in ((is_blob_file, "blobs"), (is_vector_file, "vectors")):
        ours, theirs = ([row for row in rows if kind(row.file.file_name)] for rows in (files, newer))
        conflicts += _written_apart(ours, theirs, what)
    return tuple(conflicts)


def _ordinary_near(base: ManifestEntries, delta: ManifestEntries) -> Sequence[ManifestEntry]:
    """Return the files of ordinary columns that may have rows of files of `delta`."""
    ordinary = base.select(np.array([is_ordinary_file(name.decode()) for name in base.names()], np.bool_))
    starts = np.unique(ordinary.first_row_id)
    if not len(starts):
        return ()
    homes = starts[np.maximum(np.searchsorted(starts, delta.first_row_id, "right") - 1, 0)]
    return ordinary.select(np.isin(ordinary.first_row_id, homes)).rows()


def _written_apart(
    ours: Sequence[ManifestEntry], theirs: Sequence[ManifestEntry], what: str
) -> list[Conflict]:
    """Find files of `ours` with rows for which others wrote values in separate files."""
    return [
        Conflict(
            f"snapshot {other.file.max_sequence_number} wrote {what} for rows of {row.file.file_name}",
            row.partition,
            row.bucket,
            row.file.file_name,
        )
        for row in ours
        for other in theirs
        if (row.partition, row.bucket) == (other.partition, other.bucket) and _share_rows(row, other)
    ]


def _share_rows(one: ManifestEntry, other: ManifestEntry) -> bool:
    low, high = (entry.file.first_row_id or 0 for entry in (one, other))
    return low < high + other.file.row_count and high < low + one.file.row_count
