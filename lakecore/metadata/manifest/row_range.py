"""Row ranges are groups of files that hold columns of the same rows, in tables with data evolution. This
module is pure.

Rule of the format: a file holds consecutive rows from its first row id on. Files of ordinary columns hold
the same rows or none in common; blob and vector files hold some of the rows of an ordinary file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.metadata.dedicated_columns import is_blob_file, is_vector_file
from lakecore.metadata.manifest.data_file import DataFile

__all__ = ["RowRange", "first_row", "row_ranges"]


@dataclass(frozen=True, slots=True)
class RowRange:
    """These are the files of `count` rows from row id `first` on."""

    first: int
    count: int
    ordinary: tuple[DataFile, ...]
    """These are files of ordinary columns, newest first."""
    blobs: tuple[DataFile, ...]
    """These are the blob files by first row, newest first."""
    vectors: tuple[DataFile, ...]
    """These are the vector files by first row, newest first."""

    @property
    def files(self) -> tuple[DataFile, ...]:
        return (*self.ordinary, *self.blobs, *self.vectors)

    @property
    def anchor(self) -> DataFile:
        """Return the oldest ordinary file of the range. Rule of the format: deletion vectors belong to it."""
        return min(self.ordinary, key=lambda file: (file.max_sequence_number, file.file_name))


def row_ranges(files: Sequence[DataFile]) -> list[RowRange]:
    """Group `files` into ranges, in the order of row ids.

    Raises CorruptDataError if ordinary files overlap in part, or other files exceed their range.
    """
    return [_range(group) for group in _overlapping(files)]


def first_row(file: DataFile) -> int:
    return -1 if file.first_row_id is None else file.first_row_id


def _overlapping(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    group: list[DataFile] = []
    stop = 0
    for file in sorted(files, key=first_row):
        if group and first_row(file) >= stop:
            yield group
            group = []
        stop = max(stop, first_row(file) + file.row_count) if group else first_row(file) + file.row_count
        group.append(file)
    if group:
        yield group


def _range(files: list[DataFile]) -> RowRange:
    blobs = [file for file in files if is_blob_file(file.file_name)]
    vectors = [file for file in files if is_vector_file(file.file_name)]
    ordinary = [file for file in files if file not in blobs and file not in vectors]
    first, stop = first_row(files[0]), max(first_row(file) + file.row_count for file in files)
    for file in ordinary:
        if (first_row(file), file.row_count) != (first, stop - first):
            raise CorruptDataError(
                file.file_name,
                f"holds {file.row_count} rows from row id {first_row(file)} on, but other files of the range "
                f"hold {stop - first} rows from {first} on",
            )
    ordinary.sort(key=lambda file: -file.max_sequence_number)
    for apart in (blobs, vectors):
        apart.sort(key=lambda file: (first_row(file), -file.max_sequence_number))
    return RowRange(first, stop - first, tuple(ordinary), tuple(blobs), tuple(vectors))
