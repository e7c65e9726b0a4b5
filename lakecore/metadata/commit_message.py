"""What one writer or compactor of one bucket produced: the input of a commit. Pickles."""

from __future__ import annotations

from dataclasses import dataclass

from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import IndexFile

__all__ = ["CommitMessage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """Files of one (partition, bucket). `partition` is a serialised row.

    `new_files`, `deleted_files`, `changelog_files` make an APPEND (or OVERWRITE) snapshot;
    `compact_before`, `compact_after`, `compact_changelog` a COMPACT snapshot. Index files (hash indexes,
    deletion vectors) that come and go belong to the same snapshot as its data files.

    `required_files`: files that stay and that `new_files` fit; the commit holds only as long as they are
    there. `compact_required_files`: files that stay and were asked for old rows (their values are in the
    changelog, or marked as deleted). The compaction holds only as long as these files are in the table, on
    their level.

    An index file that takes the place of another one must name it among the deleted ones: that is how a
    commit tells that nobody changed the index meanwhile. So must a message that removes a data file whose
    rows have a deletion vector, with a new index file for the other vectors of the old one.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFile, ...] = ()
    deleted_files: tuple[DataFile, ...] = ()
    changelog_files: tuple[DataFile, ...] = ()
    compact_before: tuple[DataFile, ...] = ()
    compact_after: tuple[DataFile, ...] = ()
    compact_changelog: tuple[DataFile, ...] = ()
    new_index_files: tuple[IndexFile, ...] = ()
    deleted_index_files: tuple[IndexFile, ...] = ()
    required_files: tuple[DataFile, ...] = ()
    compact_required_files: tuple[DataFile, ...] = ()
    compact_new_index_files: tuple[IndexFile, ...] = ()
    compact_deleted_index_files: tuple[IndexFile, ...] = ()
