"""This module limits the size of a micro-batch. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lakecore.data_class import dataclass
from lakecore.scan.split import Split, SplitPlan

__all__ = ["NO_WAIT", "UNLIMITED", "BatchLimits", "BatchSize", "BatchWait"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSize:
    """This is the size of some parts of a stream; rows are counted before they are merged."""

    snapshots: int = 0
    splits: int = 0
    files: int = 0
    rows: int = 0
    size: int = 0
    """It is in bytes."""

    @classmethod
    def of(cls, parts: Any, snapshots: int = 0) -> BatchSize:
        """Count what the splits of a plan have; a part may be a split and a flag."""
        if isinstance(parts, SplitPlan):
            return cls(
                snapshots=snapshots,
                splits=len(parts),
                files=parts.file_count,
                rows=parts.row_count,
                size=parts.size,
            )
        splits: Iterable[Split] = [one[0] if isinstance(one, tuple) else one for one in parts]
        counts = [(len(split.files), split.row_count, split.size) for split in splits]
        files, rows, size = map(sum, zip(*counts, strict=True)) if counts else (0, 0, 0)
        return cls(snapshots=snapshots, splits=len(parts), files=files, rows=rows, size=size)

    def plus(self, other: BatchSize) -> BatchSize:
        """Return both together."""
        return BatchSize(
            snapshots=self.snapshots + other.snapshots,
            splits=self.splits + other.splits,
            files=self.files + other.files,
            rows=self.rows + other.rows,
            size=self.size + other.size,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWait:
    """It says when there is a micro-batch at all. None means at once."""

    min_rows: int | None = None
    """A micro-batch with fewer rows waits for more, at most `max_delay_ms` after the one before."""
    max_delay_ms: int | None = None
    discovery_ms: int | None = None
    """After a look that found nothing there is none for so long."""

    def holds_back(self, rows: int, since_last_ms: int) -> bool:
        """Return whether a micro-batch of so many rows waits for more."""
        return (
            self.min_rows is not None
            and rows < self.min_rows
            and self.max_delay_ms is not None
            and since_last_ms <= self.max_delay_ms
        )


NO_WAIT = BatchWait()
"""There is a micro-batch as soon as there is a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """A micro-batch has at most this size, but at least one split, or one file of changes. None means no
    limit.
    """

    snapshots: int | None = None
    splits: int | None = None
    files: int | None = None
    rows: int | None = None
    size: int | None = None
    """It is in bytes."""
    wait: BatchWait = NO_WAIT

    @property
    def cut_snapshots(self) -> bool:
        """Return whether a micro-batch may end inside a snapshot."""
        return any(limit is not None for limit in (self.splits, self.files, self.rows, self.size))

    def admit(self, total: BatchSize) -> bool:
        """Return whether a micro-batch may have this size."""
        pairs = (
            (self.snapshots, total.snapshots),
            (self.splits, total.splits),
            (self.files, total.files),
            (self.rows, total.rows),
            (self.size, total.size),
        )
        return all(limit is None or size <= limit for limit, size in pairs)


UNLIMITED = BatchLimits()
"""A micro-batch has all that is there."""
