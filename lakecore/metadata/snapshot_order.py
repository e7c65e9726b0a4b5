"""Rows of a key in the order of their snapshots (option `sequence.snapshot-ordering`). Pure.

Rules of the format: a commit of written data puts the id of its snapshot into the sequence numbers that
describe each new file, and that is the number of all rows of the file, whatever they store. Files of a
compaction store the number of each row, and are described by these. Order within a snapshot is not promised.
"""

from __future__ import annotations

from dataclasses import replace

from lakecore.errors import UnsupportedError
from lakecore.metadata.data_file import DataFile, EntryKind, FileSource
from lakecore.metadata.entries import ManifestEntries
from lakecore.metadata.options import BY_SNAPSHOT

__all__ = ["number_of_rows", "stamped"]


def number_of_rows(file: DataFile) -> int | None:
    """The sequence number of all rows of a file of such a table; None: those that it stores.

    Raises UnsupportedError for a file whose description does not say what made it.
    """
    if file.file_source is None:
        raise UnsupportedError(
            f"data file {file.file_name}: {BY_SNAPSHOT.key}=true needs to know whether it was written or "
            "compacted, and its description is too old to tell; write the rows into a new table"
        )
    return None if file.file_source is FileSource.COMPACT else file.min_sequence_number


def stamped(entries: ManifestEntries, snapshot_id: int) -> ManifestEntries:
    """The delta of a commit of written data as snapshot `snapshot_id`. Cost: some 30 us a new file."""
    written = [
        replace(entry, file=_numbered(entry.file, snapshot_id))
        for entry in entries.select(entries.kind == EntryKind.ADD).rows()
    ]
    removed = entries.select(entries.kind != EntryKind.ADD)
    return ManifestEntries.concat([removed, ManifestEntries.from_rows(written)])


def _numbered(file: DataFile, number: int) -> DataFile:
    if file.file_source is FileSource.COMPACT:
        return file
    return replace(file, min_sequence_number=number, max_sequence_number=number)
