"""The deletion vector of one data file: loading it, and the rows that it leaves."""

from __future__ import annotations

from pyroaring import BitMap

from lakecore.errors import CorruptDataError
from lakecore.fs.file_io import FileIO
from lakecore.index.deletion_vectors import VECTOR_FRAME, decode_place
from lakecore.metadata.index_file import DeletionFile

__all__ = ["live_rows", "load_deletions"]


def load_deletions(file_io: FileIO, deletion: DeletionFile) -> BitMap:
    """The deleted positions. Reads only that vector. Raises NotFoundError, CorruptDataError."""
    place = deletion.place
    source = file_io.open_input(deletion.path)
    try:
        source.seek(min(max(place.offset, 0), source.size()))
        data = source.read(max(place.length, 0) + VECTOR_FRAME)
    finally:
        source.close()
    return decode_place(data, place, deletion.path)


def live_rows(
    deletions: BitMap | None, row_count: int, path: str, wanted: BitMap | None = None
) -> BitMap | None:
    """Positions of the rows to read of the data file `path`: of `wanted` (None: all) those not deleted.

    None for all rows. Raises CorruptDataError where a row is deleted that the file does not have.
    """
    if not deletions:
        return wanted
    if deletions.max() >= row_count:
        raise CorruptDataError(path, f"row {deletions.max()} is deleted, but the file has {row_count} rows")
    return (BitMap(range(row_count)) if wanted is None else wanted) - deletions
