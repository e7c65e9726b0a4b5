"""This module describes the loss of missing files, and decides whether it is accepted. It is pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.types.counted import counted

__all__ = ["AcceptedLoss", "BucketLoss", "losses", "total_rows"]


@dataclass(frozen=True, slots=True)
class BucketLoss:
    """These files and rows of one bucket are lost. `partition` is a text for people, empty without
    partitions.
    """

    partition: str
    bucket: int
    files: int
    rows: int

    def __str__(self) -> str:
        place = f"{self.partition}/bucket {self.bucket}" if self.partition else f"bucket {self.bucket}"
        return f"{place}: {counted(self.files, 'file')} with {counted(self.rows, 'row')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedLoss:
    """The caller accepts this loss."""

    rows: int | None = None
    """It says how many rows may be lost; None means none at all."""
    max_share: float = 0.5
    """The largest share of the named files that may be missing; more is taken for a wrong answer of
    storage.
    """

    def check(self, table: str, what: str, missing_count: int, referenced_count: int, rows: int) -> None:
        """Raise UnsupportedError, InvalidInputError that say what would be lost, unless it is accepted."""
        if not 0 < self.max_share <= 1:
            raise InvalidInputError(f"max-share {self.max_share}: must be above 0 and at most 1")
        if missing_count > self.max_share * referenced_count:
            raise UnsupportedError(
                f"{table}: {missing_count} of {referenced_count} {what} seem to be missing, more than the "
                f"limit of {self.max_share:.0%}: storage may have answered wrongly, so nothing is changed; "
                "check the files yourself, then raise --max-share"
            )
        if self.rows is None or rows > self.rows:
            raise InvalidInputError(
                f"{table}: {missing_count} {what} are missing, and {rows} rows with them; look at a dry "
                f"run, restore them if you can, or accept the loss with --accept-rows {rows}"
            )


def losses(missing: ManifestEntries, partition: Callable[[bytes], str]) -> tuple[BucketLoss, ...]:
    """Return the losses by bucket, in order of the partitions' text."""
    place = missing.partition.astype(np.int64) << 32 | (missing.bucket.astype(np.int64) & 0xFFFFFFFF)
    _, first, group = np.unique(place, return_index=True, return_inverse=True)
    rows = np.bincount(group, weights=missing.row_count, minlength=len(first))
    files = np.bincount(group, minlength=len(first))
    result = [
        BucketLoss(
            partition(missing.partition_of(lane)),
            int(missing.bucket[lane]),
            int(count),
            int(lost),
        )
        for lane, count, lost in zip(first.tolist(), files, rows, strict=True)
    ]
    return tuple(sorted(result, key=lambda loss: (loss.partition, loss.bucket)))


def total_rows(losses: Sequence[BucketLoss]) -> int:
    """Return the physical rows, before any merge."""
    return sum(loss.rows for loss in losses)
