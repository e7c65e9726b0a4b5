"""This module has a data or changelog file as a manifest describes it, and one entry (ADD or DELETE) of a
manifest.
"""

from __future__ import annotations

from enum import IntEnum

from lakecore.data_class import dataclass
from lakecore.metadata.row_kind import ROW_ID_NAME

__all__ = [
    "EMPTY_ROW",
    "EMPTY_STATS",
    "DataFile",
    "EntryKind",
    "FileIdentity",
    "FileSource",
    "ManifestEntry",
    "SimpleStats",
]

EMPTY_ROW = bytes(12)
"""This is a serialised row without fields: int32 arity 0 and eight zero bytes. It is never empty."""


class EntryKind(IntEnum):
    """It tells whether an entry adds or deletes its file."""

    ADD = 0
    DELETE = 1


class FileSource(IntEnum):
    """It tells the source of a file, which is a writer or a compaction."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """It has column bounds, as two serialised rows (int32 BE arity + BinaryRow), and null counts."""

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]


EMPTY_STATS = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """It is the `_FILE` column of a manifest entry. Rows (`min_key`, …) are serialised; sizes are in
    bytes.
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    key_stats: SimpleStats = EMPTY_STATS
    value_stats: SimpleStats = EMPTY_STATS
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int = 0
    extra_files: tuple[str, ...] = ()
    creation_time: int | None = None
    """This is the writer's local wall clock in milliseconds, as if it were UTC; None if it was not
    recorded.
    """
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    file_source: FileSource | None = None
    value_stats_cols: tuple[str, ...] | None = None
    """These are the columns that the statistics cover: None means all columns, () none."""
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None

    @property
    def all_names(self) -> tuple[str, ...]:
        """Return the name of the file and the names of its extra files, which are deleted with it."""
        return (self.file_name, *self.extra_files)

    @property
    def lacks_row_ids(self) -> bool:
        """Return whether a written file's rows have no ids yet; compactions store the ids of their rows."""
        stored = self.write_cols is not None and ROW_ID_NAME in self.write_cols
        return self.file_source is not FileSource.COMPACT and self.first_row_id is None and not stored


FileIdentity = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """It is an ADD or DELETE of one file. `partition` is a serialised row."""

    kind: EntryKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFile

    @property
    def identity(self) -> FileIdentity:
        """Return the identity by which ADD and DELETE are matched. Level is part of it: an upgrade is DELETE
        + ADD.
        """
        f = self.file
        return (
            self.partition,
            self.bucket,
            f.level,
            f.file_name,
            f.extra_files,
            f.embedded_index,
            f.external_path,
        )
