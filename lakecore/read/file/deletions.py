"""This module selects the rows of a data file that its deletion vector keeps."""

from __future__ import annotations

from pyroaring import BitMap

from lakecore.errors import CorruptDataError

__all__ = ["live_rows"]


def live_rows(
    deletions: BitMap | None, row_count: int, path: str, selection: BitMap | None = None
) -> BitMap | None:
    """Return the positions of the rows to read of the data file `path`: those of `selection` (None: all) that
    are not deleted.

    None means all rows. Raises CorruptDataError where a row is deleted that the file does not have.
    """
    if not deletions:
        return selection
    if deletions.max() >= row_count:
        raise CorruptDataError(path, f"row {deletions.max()} is deleted, but the file has {row_count} rows")
    return (BitMap(range(row_count)) if selection is None else selection) - deletions
