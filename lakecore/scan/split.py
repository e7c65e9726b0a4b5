"""Splits: the units of a read, and a plan of them that makes their file descriptions on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from lakecore.metadata.data_file import DataFile
from lakecore.metadata.entries import ManifestEntries

__all__ = ["Split", "SplitPlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Files of one bucket that must be read together. `partition` is a serialised row. Pickles.

    `raw_convertible`: every row of every file is a live row of the table, so no merging is needed.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFile, ...]
    raw_convertible: bool

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(file.file_size for file in self.files)

    @property
    def row_count(self) -> int:
        """Rows in its files, before merging."""
        return sum(file.row_count for file in self.files)


@dataclass(frozen=True, slots=True, eq=False)
class SplitPlan(Sequence[Split]):
    """All splits of a scan. Split `i` reads `entries[order[starts[i]:starts[i + 1]]]`.

    Entries stay columns until a split is asked for: a plan over a million files costs no million objects.
    """

    entries: ManifestEntries
    order: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    raw_convertible: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.raw_convertible)

    @overload
    def __getitem__(self, index: int) -> Split: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Split, ...]: ...
    def __getitem__(self, index: int | slice) -> Split | tuple[Split, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._split(index % len(self))

    def __iter__(self) -> Iterator[Split]:
        return (self._split(index) for index in range(len(self)))

    @property
    def file_count(self) -> int:
        return int(self.starts[-1])

    @property
    def row_count(self) -> int:
        """Rows in all files, before merging."""
        return int(self.entries.row_count[self.order].sum())

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return int(self.entries.file_size[self.order].sum())

    def _split(self, index: int) -> Split:
        lanes: Any = self.order[self.starts[index] : self.starts[index + 1]]
        first = int(lanes[0])
        return Split(
            partition=self.entries.partition_of(first),
            bucket=int(self.entries.bucket[first]),
            total_buckets=int(self.entries.total_buckets[first]),
            files=tuple(self.entries.files(lanes)),
            raw_convertible=bool(self.raw_convertible[index]),
        )
