"""This module checks values of BLOB columns that stay in ordinary files: they must be references to bytes
elsewhere.

Rule of the format: readers report bytes that are no reference, or no view, as corruption.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lakecore.errors import InvalidInputError
from lakecore.format.blob.descriptors import is_reference, is_view
from lakecore.metadata.dedicated_columns import BLOB_DESCRIPTOR_FIELD, BLOB_VIEW_FIELD

__all__ = ["check_references", "check_views"]


def check_references(name: str, column: pa.Array) -> None:
    """Raise InvalidInputError for a value of a column of references that is none."""
    _check(name, column, is_reference, BLOB_DESCRIPTOR_FIELD.key, "reference to")


def check_views(name: str, column: pa.Array) -> None:
    """Raise InvalidInputError for a value of a column of views that is none. The table and the row that a
    view names need not exist: they may be created later, and removed.
    """
    _check(name, column, is_view, BLOB_VIEW_FIELD.key, "view of")


def _check(name: str, column: pa.Array, fits: Callable[[bytes], bool], option: str, what: str) -> None:
    for value in column:
        data = value.as_py()
        if data is not None and not fits(data):
            raise InvalidInputError(
                f"column {name} (option {option}): {len(data)} bytes are no {what} a blob; write the "
                f"{what.split()[0]}, or the bytes into another column"
            )
