"""Splits are the units of a read; a split plan makes their file descriptions on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import DeletionFile

__all__ = ["Split", "SplitPlan"]

_FIRST_FILES = 16
"""The files that are described for the first splits of a plan: those who read a few rows want no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """These files of one bucket must be read together. It can be pickled."""

    partition: bytes
    """This is the serialised partition row."""
    bucket: int
    total_buckets: int
    files: tuple[DataFile, ...]
    raw_convertible: bool
    """It tells whether every row of every file is a live row of the table, so that no merging is needed."""
    deletions: tuple[DeletionFile | None, ...] = ()
    """This is the deletion vector of each file, in the order of `files`; None for a file without deleted
    rows. The tuple is empty if no file has one.
    """

    @property
    def deletions_of(self) -> Mapping[str, DeletionFile]:
        """Return the deletion vectors by the names of the data files that have one."""
        if not self.deletions:
            return {}
        pairs = zip(self.files, self.deletions, strict=True)
        return {file.file_name: deletion for file, deletion in pairs if deletion is not None}

    @property
    def size(self) -> int:
        """Return the size of the files in bytes."""
        return sum(file.file_size for file in self.files)

    @property
    def row_count(self) -> int:
        """Return the number of rows in the files, before merging."""
        return sum(file.row_count for file in self.files)


@dataclass(frozen=True, slots=True, eq=False)
class SplitPlan(Sequence[Split]):
    """These are all splits of a scan. Split `i` reads `entries[order[starts[i]:starts[i + 1]]]`.

    Entries stay columns until a split is requested: a plan over a million files creates no million
    objects.
    """

    entries: ManifestEntries
    order: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    raw_convertible: npt.NDArray[np.bool_]
    deletions: Mapping[tuple[bytes, int, str], DeletionFile] = field(default_factory=dict)
    """These are the deletion vectors, by serialised partition, bucket and name of the data file."""

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
        bounds = pairwise(self.starts.tolist())
        groups = (self.order[low:high] for low, high in bounds)
        for index, files in enumerate(self.entries.files_of(groups, _FIRST_FILES)):
            yield self._of_files(index, files)

    @property
    def file_count(self) -> int:
        return int(self.starts[-1])

    @property
    def row_count(self) -> int:
        """Return the number of rows in all files, before merging."""
        return int(self.entries.row_count[self.order].sum())

    @property
    def size(self) -> int:
        """Return the size of all files in bytes."""
        return int(self.entries.file_size[self.order].sum())

    def _split(self, index: int) -> Split:
        lanes: Any = self.order[self.starts[index] : self.starts[index + 1]]
        return self._of_files(index, self.entries.files(lanes))

    def _of_files(self, index: int, bucket_files: Sequence[DataFile]) -> Split:
        first = int(self.order[self.starts[index]])
        partition, bucket = self.entries.partition_of(first), int(self.entries.bucket[first])
        files = tuple(bucket_files)
        deletions = tuple(self.deletions.get((partition, bucket, file.file_name)) for file in files)
        return Split(
            partition=partition,
            bucket=bucket,
            total_buckets=int(self.entries.total_buckets[first]),
            files=files,
            raw_convertible=bool(self.raw_convertible[index]),
            deletions=deletions if any(deletions) else (),
        )
