"""This module decides which blob files become one, where `blob-compaction.enabled` says so. Pure.

Rules of the format, by column: files that have values of the same rows, directly or in a chain, become one;
of the others so do neighbours that are smaller than the target, in turn from the first row on: a group closes
when it passes the target size. What becomes one file is always a whole stretch of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.row_range import first_row

__all__ = ["BlobGroup", "BlobRules"]

BlobGroup = tuple[DataFile, ...]
"""These are files of one column, in the order of their rows; of the same rows the older comes first."""

_LEAST = 2


@dataclass(frozen=True, slots=True)
class BlobRules:
    """`target_size` is the size of a file in bytes. `columns` are the ids of the fields that are joined.
    `columns_of` returns those of a file.
    """

    target_size: int
    columns: frozenset[int]
    columns_of: Callable[[DataFile], frozenset[int]]

    def groups(self, files: Iterable[DataFile]) -> tuple[BlobGroup, ...]:
        """Return groups of `files`, which are the blob files of neighbouring rows."""
        by_column: dict[frozenset[int], list[DataFile]] = {}
        for file in files:
            columns = self.columns_of(file)
            if columns <= self.columns:
                by_column.setdefault(columns, []).append(file)
        return tuple(group for column_files in by_column.values() for group in self._groups(column_files))

    def _groups(self, files: list[DataFile]) -> list[BlobGroup]:
        groups: list[BlobGroup] = []
        small: list[DataFile] = []
        for rows in _overlapping(files):
            if len(rows) >= _LEAST:
                groups.append(tuple(rows))
            elif rows[0].file_size < self.target_size:
                small += rows
        return sorted([*groups, *self._small(small)], key=lambda group: first_row(group[0]))

    def _small(self, files: Sequence[DataFile]) -> Iterator[BlobGroup]:
        waiting: list[DataFile] = []
        size = stop = 0
        for file in files:
            full = size >= self.target_size and len(waiting) >= _LEAST
            if waiting and (full or first_row(file) != stop):
                if len(waiting) >= _LEAST:
                    yield tuple(waiting)
                waiting, size = [], 0
            waiting.append(file)
            size += file.file_size
            stop = first_row(file) + file.row_count
        if len(waiting) >= _LEAST:
            yield tuple(waiting)


def _overlapping(files: list[DataFile]) -> Iterator[list[DataFile]]:
    group: list[DataFile] = []
    stop = 0
    for file in sorted(files, key=lambda file: (first_row(file), file.max_sequence_number)):
        if group and first_row(file) >= stop:
            yield group
            group, stop = [], 0
        stop = max(stop, first_row(file) + file.row_count)
        group.append(file)
    if group:
        yield group
