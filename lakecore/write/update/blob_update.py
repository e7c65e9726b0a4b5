"""This module updates some rows of a BLOB column: decides which blob files are rewritten, and rewrites them.

Rule of the format: of the blob files of a column the newest that has a row counts. Java 1.4 requires a newer
file to have all rows of an older one, from its first on; so the files that hold changed rows are rewritten,
each completely, and no others. Bytes of other rows are copied as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.row_range import RowRange, first_row
from lakecore.read.columns.blob_values import BlobColumn, locate_blobs
from lakecore.read.context import ReadContext
from lakecore.read.file.column_sources import resolve_column_sources
from lakecore.write.files.dedicated_files import BlobFiles

__all__ = ["BlobUpdate", "stretches"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class BlobUpdate:
    """These are new values of one column in one range.

    It holds the index of each blob file of the column (20 bytes a row), and 1 MB of an old value.
    """

    reading: ReadContext
    directory: str
    rows: RowRange
    column: str
    places: Ints
    """These are the positions of the changed rows in the range, ascending."""
    new: pa.Array
    """These are the new values of these rows."""

    @cached_property
    def old(self) -> tuple[DataFile, ...]:
        """Return the blob files of the column. The result of `write` fits these, and no others."""
        field = self.reading.schema.row_type.field(self.column)
        return tuple(resolve_column_sources(self.reading, self.rows, [field]).blobs.get(self.column, ()))

    def write(self, open_files: Callable[[], BlobFiles]) -> list[DataFile]:
        """Write the new files; `open_files` opens one. Raises NotFoundError, CorruptDataError,
        UnavailableError.
        """
        field = self.reading.schema.row_type.field(self.column)
        paths = [(self.reading.paths.data_file(self.directory, file), file) for file in self.old]
        blobs = locate_blobs(self.reading.file_io, field, paths, self.rows.first, self.rows.count)
        new_files = []
        for low, high in stretches(self.rows, self.old, self.places):
            files = open_files()
            self._fill(files, blobs, low, high)
            new_files += [replace(file, first_row_id=self.rows.first + low) for file in files.close()]
        return new_files

    def _fill(self, files: BlobFiles, blobs: BlobColumn, low: int, high: int) -> None:
        start, stop = np.searchsorted(self.places, (low, high)).tolist()
        changed = dict(zip(self.places[start:stop].tolist(), range(start, stop), strict=True))
        for place, record in enumerate(blobs.records(np.arange(low, high)), low):
            if place in changed:
                files.write(self.new.slice(changed[place], 1))
            else:
                files.write_record(record)


def stretches(rows: RowRange, files: Sequence[DataFile], places: Ints) -> list[tuple[int, int]]:
    """Return the rows of each new file, (first, behind the last), as positions in the range. Each has one of
    `places`.

    `files` are those of the column, by first row, newest first. Where they do not follow one another from the
    first row to the last, as Java 1.4 requires, all rows go into one.
    """
    bounds = [0]
    for file in files:
        low = first_row(file) - rows.first
        if low > bounds[-1]:
            return [(0, rows.count)]
        if low == bounds[-1]:
            bounds.append(low + file.row_count)
    if bounds[-1] != rows.count:
        return [(0, rows.count)]
    numbers = np.unique(np.searchsorted(bounds, places, side="right"))
    return [(bounds[at - 1], bounds[at]) for at in numbers.tolist()]
