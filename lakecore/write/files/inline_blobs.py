"""Values of BLOB columns that stay in ordinary files: references to bytes elsewhere, and nothing else.

Rule of the format: readers take what is no reference, or no view, for damage.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lakecore.errors import InvalidInputError
from lakecore.format.blob.descriptors import is_reference, is_view
from lakecore.metadata.dedicated_columns import BLOB_DESCRIPTOR_FIELD, BLOB_VIEW_FIELD

__all__ = ["check_references", "check_views"]


def check_references(name: str, column: pa.Array) -> None:
    """Raises InvalidInputError for a value of a column of references that is none."""
    _check(name, column, is_reference, BLOB_DESCRIPTOR_FIELD.key, "reference to")


def check_views(name: str, column: pa.Array) -> None:
    """Raises InvalidInputError for a value of a column of views that is none. Whether the table and the row
    that a view names are there is not asked: they may come later, and go.
    """
    _check(name, column, is_view, BLOB_VIEW_FIELD.key, "view of")


def _check(name: str, column: pa.Array, fits: Callable[[bytes], bool], option: str, what: str) -> None:
    for value in column:
        found = value.as_py()
        if found is not None and not fits(found):
            raise InvalidInputError(
                f"column {name} (option {option}): {len(found)} bytes are no {what} a blob; write the "
                f"{what.split()[0]}, or the bytes into another column"
            )
