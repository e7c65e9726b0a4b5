"""This module has the commit message: what one writer or compactor of one bucket produced, and the input
of a commit. It can be pickled.
"""

from __future__ import annotations

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import IndexFile

__all__ = ["CommitMessage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """It has the files of one (partition, bucket).

    `new_files`, `deleted_files` and `changelog_files` make an APPEND (or OVERWRITE) snapshot;
    `compact_before`, `compact_after` and `compact_changelog` make a COMPACT snapshot. Index files (hash
    indexes, deletion vectors) that are added or deleted belong to the same snapshot as its data files.

    An index file that replaces another one must name it among the deleted ones: that is how a commit
    detects that nobody changed the index meanwhile. The same holds for a message that removes a data file
    whose rows have a deletion vector: it adds a new index file for the other vectors of the old one.
    """

    partition: bytes
    """This is the serialised partition row."""
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
    """Files that stay in the table and that `new_files` depend on; the commit is valid only while they are
    there.
    """
    compact_required_files: tuple[DataFile, ...] = ()
    """Files that stay and in which old rows were looked up (their values are in the changelog, or marked
    as deleted). The compaction is valid only while these files are in the table, on their level.
    """
    compact_new_index_files: tuple[IndexFile, ...] = ()
    compact_deleted_index_files: tuple[IndexFile, ...] = ()
