"""Splits are the units of a read; a split plan makes their file descriptions on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.format.manifest.encoded_files import EncodedFiles, file_slices
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import DeletionFile

__all__ = ["Split", "SplitPlan"]

_FilesOf: TypeAlias = Callable[
    [ManifestEntries, Iterable[npt.NDArray[Any]], int], Iterator[Sequence[DataFile]]
]

_FIRST_FILES = 16
"""The files that are described for the first splits of a plan: those who read a few rows want no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """These files of one bucket must be read together. It can be pickled."""

    partition: bytes
    """This is the serialised partition row."""
    bucket: int
    total_buckets: int
    files: Sequence[DataFile]
    """Those of a large plan are records of manifests until one of them is asked for."""
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
        if isinstance(self.files, EncodedFiles):
            return self.files.size
        return sum(file.file_size for file in self.files)

    @property
    def row_count(self) -> int:
        """Return the number of rows in the files, before merging."""
        if isinstance(self.files, EncodedFiles):
            return self.files.row_count
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
            return tuple(self._splits(range(*index.indices(len(self))), file_slices))
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return next(self._splits(range(index % len(self), index % len(self) + 1), file_slices))

    def __iter__(self) -> Iterator[Split]:
        return self._splits(range(len(self)), file_slices)

    def with_objects(self) -> Iterator[Split]:
        """Yield the splits with their files as objects, for those who look at each file: 7 us a file instead
        of 30.
        """
        return self._splits(range(len(self)), ManifestEntries.files_of)

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

    def names(self) -> Iterator[tuple[bytes, int, list[bytes]]]:
        """Yield the partition and bucket of each split, and the names of its files."""
        names, bounds = self.entries.names(), self.starts.tolist()
        for low, high in pairwise(bounds):
            lanes = self.order[low:high].tolist()
            bucket = int(self.entries.bucket[lanes[0]])
            yield self.entries.partition_of(lanes[0]), bucket, [names[lane] for lane in lanes]

    def select(self, mask: npt.NDArray[np.bool_]) -> SplitPlan:
        """Return the plan of some splits; it costs copies of columns of their files."""
        sizes = np.diff(self.starts)
        return replace(
            self,
            order=self.order[np.repeat(mask, sizes)],
            starts=np.concatenate([[0], np.cumsum(sizes[mask])]),
            raw_convertible=self.raw_convertible[mask],
        )

    def _splits(self, indexes: range, files_of: _FilesOf) -> Iterator[Split]:
        bounds = self.starts.tolist()
        groups = (self.order[bounds[index] : bounds[index + 1]] for index in indexes)
        names = self.entries.names() if self.deletions else []
        for index, files in zip(indexes, files_of(self.entries, groups, _FIRST_FILES), strict=True):
            lanes = self.order[bounds[index] : bounds[index + 1]].tolist()
            partition, bucket = self.entries.partition_of(lanes[0]), int(self.entries.bucket[lanes[0]])
            keys = ((partition, bucket, names[lane].decode()) for lane in lanes) if names else ()
            deletions = tuple(map(self.deletions.get, keys))
            yield Split(
                partition=partition,
                bucket=bucket,
                total_buckets=int(self.entries.total_buckets[lanes[0]]),
                files=files if isinstance(files, EncodedFiles) else tuple(files),
                raw_convertible=bool(self.raw_convertible[index]),
                deletions=deletions if any(deletions) else (),
            )
