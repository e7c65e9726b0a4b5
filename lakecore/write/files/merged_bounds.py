"""This module puts statistics of rows together that come from several files, without decoding the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakecore.format.bounds import ColumnBounds
from lakecore.metadata.key_order import comparable

__all__ = ["MergedBounds"]


class MergedBounds:
    """It has the bounds of columns over all parts that were added. What one part does not tell is not told
    of the whole.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[int, Mapping[str, ColumnBounds]]] = []

    def add(self, rows: int, bounds: Mapping[str, ColumnBounds]) -> None:
        """Add the bounds of so many rows. A column without an entry has none."""
        self._parts.append((rows, bounds))

    def finish(self) -> Mapping[str, ColumnBounds]:
        """Return the bounds of every column of which some part has bounds."""
        names = dict.fromkeys(name for _, bounds in self._parts for name in bounds)
        return {name: self._column(name) for name in names}

    def _column(self, name: str) -> ColumnBounds:
        low = high = None
        nulls: int | None = 0
        has_ends = True
        for rows, bounds in self._parts:
            part = bounds.get(name, ColumnBounds())
            nulls = None if nulls is None or part.null_count is None else nulls + part.null_count
            if part.null_count == rows:
                continue
            has_ends = has_ends and part.minimum is not None and part.maximum is not None
            low, high = _lower(part.minimum, low), _higher(part.maximum, high)
        return ColumnBounds(low, high, nulls) if has_ends else ColumnBounds(null_count=nulls)


def _lower(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return right if left is None else left
    return left if comparable(left) < comparable(right) else right


def _higher(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return right if left is None else left
    return left if comparable(left) > comparable(right) else right
