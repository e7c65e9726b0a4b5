"""This module records where the keys of a sorted file are: the key of every so many rows, while the file is
read for the proof.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import field

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.verify.digest.columns import StoredFile, read_covered
from lakecore.verify.digest.context import ProofContext
from lakecore.verify.rules.order import KeyValues, key_at

__all__ = ["STRIDE", "KeyMarks", "KeySpan", "Marks", "end_keys", "marks_of", "rows_inside"]

STRIDE = 2048
"""Rows from one mark to the next: a mark costs some microseconds, rows read beside a span cost decoding."""


@dataclass(frozen=True, slots=True)
class KeySpan:
    """These are the keys from `low` to before `high` (with `closed` to `high` itself). None is no bound."""

    low: KeyValues | None = None
    high: KeyValues | None = None
    closed: bool = False

    def __str__(self) -> str:
        low = "the first key" if self.low is None else str(self.low)
        high = "the last key" if self.high is None else str(self.high)
        return f"{low} to {high}"


@dataclass(slots=True)
class KeyMarks:
    """The keys of some rows of one file, in order: `keys` are at `positions`. `rows` is the number of rows of
    the file so far.
    """

    positions: list[int] = field(default_factory=list)
    keys: list[KeyValues] = field(default_factory=list)
    rows: int = 0
    last: KeyValues | None = None

    def add(self, keys: Sequence[pa.Array]) -> None:
        """Add the key columns of the next rows."""
        count = len(keys[0])
        for row in range(-self.rows % STRIDE, count, STRIDE):
            self.positions.append(self.rows + row)
            self.keys.append(key_at(keys, row))
        if count:
            self.last = key_at(keys, -1)
        self.rows += count

    def span(self, keys: KeySpan) -> tuple[int, int]:
        """Return rows [start, stop) that can be in the span, and a few beside them."""
        low = 0 if keys.low is None else bisect_left(self.keys, keys.low) - 1
        if keys.high is None:
            high = len(self.keys)
        else:
            high = (bisect_right if keys.closed else bisect_left)(self.keys, keys.high)
        start = self.positions[max(low, 0)] if self.positions else 0
        return start, self.positions[high] if high < len(self.positions) else self.rows


Marks = dict[str, KeyMarks]
"""These are the key marks of each file, by path."""


def marks_of(context: ProofContext, stored: StoredFile, decoded: Marks) -> KeyMarks:
    """Return the marks of a file; its key columns are read unless `decoded` has them."""
    marks = decoded.get(stored.path)
    if marks is None:
        shape = context.shape.keys_only
        schema = context.schemas[stored.file.schema_id]
        marks = KeyMarks()
        for columns in read_covered(context.file_io, stored.path, shape, schema):
            marks.add(columns[: len(shape.key)])
        decoded[stored.path] = marks
    return marks


def end_keys(context: ProofContext, stored: StoredFile, span: tuple[int, int]) -> tuple[KeyValues, KeyValues]:
    """Return the keys of the first and the last row of the rows [start, stop) of a file. It reads a page of
    each key column for each. Raises ProofError where the file has fewer rows.
    """
    shape, schema = context.shape.keys_only, context.schemas[stored.file.schema_id]
    keys = []
    for row in (span[0], span[1] - 1):
        batches = read_covered(context.file_io, stored.path, shape, schema, rows=(row, row + 1))
        columns = next((one for one in batches if len(one[0])), None)
        if columns is None:
            raise ProofError(stored.path, f"it has no row {row}")
        keys.append(key_at(columns[: len(shape.key)], 0))
    return keys[0], keys[1]


def rows_inside(keys: Sequence[pa.Array], span: KeySpan) -> tuple[int, int]:
    """Return the rows [start, stop) of sorted `keys` that are in the span, by binary search."""
    rows = range(len(keys[0]))
    start = 0 if span.low is None else bisect_left(rows, span.low, key=lambda row: key_at(keys, row))
    stop = len(rows)
    if span.high is not None:
        find = bisect_right if span.closed else bisect_left
        stop = find(rows, span.high, key=lambda row: key_at(keys, row))
    return start, max(start, stop)
