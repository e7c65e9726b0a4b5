"""This module orders the rows of a key by their snapshots (option `sequence.snapshot-ordering`). Pure.

Rules of the format: a commit of written data puts the id of its snapshot into the sequence numbers that
describe each new file, and that is the number of all rows of the file, whatever they store. Files of a
compaction store the number of each row, and are described by these. Order within a snapshot is not promised.

Postponed rows come after all rows that their bucket has when they get it: that is one commit of a compaction,
whose files are written ones. They are numbered like its other writes, so rows written later come after them;
Java Paimon 2.0 goes on counting rows there, and what is written later then comes before the postponed rows.
"""

from __future__ import annotations

from dataclasses import replace

from lakecore.errors import UnsupportedError
from lakecore.metadata.manifest.data_file import DataFile, EntryKind, FileSource
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import BY_SNAPSHOT

__all__ = ["snapshot_number", "with_snapshot_numbers"]


def snapshot_number(file: DataFile) -> int | None:
    """Return the sequence number that all rows of a file have; None if each row stores its own.

    Raises UnsupportedError for a file whose description does not say what made it.
    """
    if file.file_source is None:
        raise UnsupportedError(
            f"data file {file.file_name}: its metadata is too old to tell whether it was written or "
            f"compacted, which {BY_SNAPSHOT.key}=true requires; write the rows into a new table"
        )
    return None if file.file_source is FileSource.COMPACT else file.min_sequence_number


def with_snapshot_numbers(
    entries: ManifestEntries, snapshot_id: int, *, compacted: bool = False
) -> ManifestEntries:
    """Number the delta of a commit as snapshot `snapshot_id`. It costs some 30 us a new file.

    `compacted`: the delta is of a compaction, in which only rows that were postponed are new; other
    written files are only moved to another level. A file may ask for a higher number, to come after the
    rows that its bucket had: if Java gave postponed rows buckets, these have higher numbers than
    snapshots.
    """
    adds = entries.kind == EntryKind.ADD
    removed, added = entries.select(~adds), entries.select(adds)
    moved = {file.file_name for file in removed.files()} if compacted else frozenset()
    rows = [
        entry
        if entry.file.file_name in moved
        else replace(entry, file=_number(entry.file, max(snapshot_id, entry.file.min_sequence_number)))
        for entry in added.rows()
    ]
    return ManifestEntries.concat([removed, ManifestEntries.from_rows(rows)])


def _number(file: DataFile, number: int) -> DataFile:
    if file.file_source is FileSource.COMPACT:
        return file
    return replace(file, min_sequence_number=number, max_sequence_number=number)
