"""One line of a manifest list: a manifest, what it holds and the bounds it can be skipped by."""

from __future__ import annotations

from dataclasses import dataclass

from lakecore.metadata.manifest.data_file import EMPTY_STATS, SimpleStats

__all__ = ["ManifestFile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """`file_size` in bytes. Bounds cover ADD and DELETE entries; None = not recorded (older writers).

    `partition_stats` are untruncated bounds of each partition column on its own (serialised rows);
    `schema_id` is the largest of the entries. Row ids are recorded only when every entry has one.
    """

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats = EMPTY_STATS
    schema_id: int = 0
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
    has_unknown_columns: bool = False

    @property
    def entry_count(self) -> int:
        return self.num_added_files + self.num_deleted_files
