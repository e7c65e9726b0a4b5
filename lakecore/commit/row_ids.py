"""Row ids of new files, given at commit: nobody else knows which ids are free. Pure.

Rules of the format: a written file that stores no ids of its own gets the next ids, one a row, in the order
of the commit; its rows count as changed by the new snapshot, which its sequence numbers then name. Files of
a compaction store the ids and sequence numbers of their rows.
"""

from __future__ import annotations

from dataclasses import replace

from lakecore.metadata.data_file import DataFile, EntryKind, FileSource, ManifestEntry
from lakecore.metadata.entries import ManifestEntries
from lakecore.metadata.row_kind import ROW_ID_NAME

__all__ = ["assign_row_ids"]


def assign_row_ids(entries: ManifestEntries, snapshot_id: int, first: int) -> tuple[ManifestEntries, int]:
    """The delta of snapshot `snapshot_id` with row ids from `first` on, and the id after the last one."""
    added = entries.kind == EntryKind.ADD
    rows: list[ManifestEntry] = []
    for entry in entries.select(added).rows():
        file = entry.file
        if _needs_ids(file):
            file = replace(file, first_row_id=first)
            first += file.row_count
        if _needs_ids(entry.file) or file.min_sequence_number == 0:
            file = replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
        rows.append(replace(entry, file=file))
    return ManifestEntries.concat([entries.select(~added), ManifestEntries.from_rows(rows)]), first


def _needs_ids(file: DataFile) -> bool:
    stored = file.write_cols is not None and ROW_ID_NAME in file.write_cols
    return file.file_source is not FileSource.COMPACT and file.first_row_id is None and not stored
