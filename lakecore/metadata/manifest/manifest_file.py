"""This module has one line of a manifest list: a manifest, what it holds and the bounds by which it can be
skipped.
"""

from __future__ import annotations

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import EMPTY_STATS, SimpleStats

__all__ = ["ManifestFile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """This is a manifest. Bounds cover ADD and DELETE entries and are None if they were not recorded
    (older writers).
    """

    file_name: str
    file_size: int
    """This is the size in bytes."""
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats = EMPTY_STATS
    """These are the untruncated bounds of each partition column on its own (serialised rows)."""
    schema_id: int = 0
    """This is the largest schema id of the entries."""
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    """This is the first row id; it is recorded only if every entry has one, as `max_row_id` is."""
    max_row_id: int | None = None
    has_unknown_columns: bool = False
    """It tells whether its line has columns that rewriting it would lose."""

    @property
    def entry_count(self) -> int:
        return self.num_added_files + self.num_deleted_files
