"""This module finds the global indexes that an update of columns would make stale. It is pure.

A global index names rows by their ids, so it stays valid when files are compacted, and becomes wrong when
rows that it covers get new values in a column that it indexes. Source: Paimon's option
`global-index.column-update-action`, whose default is to raise an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakecore.errors import UnsupportedError
from lakecore.metadata.manifest.index_file import GlobalIndex, IndexFile

__all__ = ["UpdatedRows", "check_no_stale_index"]


@dataclass(frozen=True, slots=True)
class UpdatedRows:
    """These are rows that get new values in some columns."""

    first: int
    """It is the first row id."""
    last: int
    field_ids: frozenset[int]


def check_no_stale_index(table: str, indexes: Sequence[IndexFile], updates: Iterable[UpdatedRows]) -> None:
    """Raise UnsupportedError where an index covers an updated column of updated rows."""
    covering = [(file, file.global_index) for file in indexes if file.global_index is not None]
    for update in updates if covering else ():
        for file, index in covering:
            if (
                index.first <= update.last
                and update.first <= index.last
                and _fields(index) & update.field_ids
            ):
                raise UnsupportedError(
                    f"{table}: rows {update.first} to {update.last} get new values in a column of the global "
                    f"index {file.file_name} ({file.index_type}), which would then find wrong rows; drop the "
                    "index with the engine that made it, and make it again after the update"
                )


def _fields(index: GlobalIndex) -> frozenset[int]:
    return frozenset((index.field_id, *(index.extra_field_ids or ())))
