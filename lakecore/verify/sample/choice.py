"""This module decides which windows of a unit a sampled proof compares whole. Pure: the same seed gives the
same windows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import field
from itertools import groupby, pairwise

from lakecore.data_class import dataclass
from lakecore.verify.rules.order import KeyValues
from lakecore.verify.sample.key_marks import STRIDE, KeyMarks, KeySpan

__all__ = [
    "LEAST_SHARE",
    "KeyWindow",
    "RowSample",
    "RowSpan",
    "join_samples",
    "key_windows",
    "seeded_order",
    "window_rows",
]

RowSpan = tuple[int, int]
"""These are the rows [start, stop) of a file."""

LEAST_SHARE = 16
"""Of so many rows at least one is in the sample."""
_MOST_ROWS = 262144
_MOST_BYTES = 24 << 20
_LEAST_ROWS = STRIDE
_COPIED_ROWS = 4 * STRIDE
"""A window of copied rows has so many. Their bytes were compared; it shows that they decode to the values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSample:
    """This is the account of the rows that a sampled proof compared. Accounts of units can be added and
    pickled.

    `rows` counts input rows and `windows` the ranges that they are in. `tied` are keys left out, because
    several rows may be the latest of them. `left_out` are columns whose values could not be recomputed.
    """

    rows: int = 0
    windows: int = 0
    tied: int = 0
    left_out: frozenset[str] = field(default=frozenset())


def join_samples(parts: Sequence[RowSample]) -> RowSample:
    """Return the sum of all parts."""
    return RowSample(
        rows=sum(part.rows for part in parts),
        windows=sum(part.windows for part in parts),
        tied=sum(part.tied for part in parts),
        left_out=frozenset[str]().union(*(part.left_out for part in parts)),
    )


def window_rows(rows: int, share: float = 1.0, width: int = 1) -> int:
    """Return the number of rows that one window has of `rows`: a little more than one of 16, if so many fit
    in memory. (Each window costs an opening of all files: few large ones are cheaper than many small ones.)

    `share` is the part of the rows of a window that are in its result; `width` is the number of bytes of a
    stored row.
    """
    most = min(_MOST_ROWS, _MOST_BYTES // max(width, 1))
    count = -(-rows // (LEAST_SHARE - 1))
    return max(_LEAST_ROWS, min(count, int(most * min(share, 1.0))))


def seeded_order(seed: str, unit: str, count: int) -> list[int]:
    """Return the numbers of `count` windows in the order in which the sample takes them."""
    return sorted(range(count), key=lambda number: _hash(f"{seed}\0{unit}\0{number}"))


@dataclass(frozen=True, slots=True)
class KeyWindow:
    """These are keys whose rows are compared together. With `copied` all rows that outputs have of them were
    copied.
    """

    keys: KeySpan
    copied: bool = False


def key_windows(
    files: Sequence[tuple[KeyMarks, Sequence[RowSpan]]], rows: int, *, ends_open: bool
) -> list[KeyWindow]:
    """Return windows of about `rows` rows of `files`, which follow each other in key order; the windows cover
    all keys without overlap. Each file has the rows in it that were copied; windows of these are short.

    `ends_open`: keys before the first row and behind the last belong to the first and the last window.
    """
    keys: list[KeyValues] = [key for marks, _ in files for key in marks.keys]
    if not keys:
        return [KeyWindow(KeySpan())] if ends_open else []
    last = next(marks.last for marks, _ in reversed(files) if marks.last is not None)
    starts = _window_starts(files, rows)
    cuts = [keys[at] for at, _ in starts]
    spans = [KeySpan(low, high) for low, high in pairwise(cuts)]
    spans.append(KeySpan(cuts[-1], last, closed=True))
    if ends_open:
        spans[0] = KeySpan(None, spans[0].high, spans[0].closed)
        spans[-1] = KeySpan(spans[-1].low, None)
    return [KeyWindow(span, copied) for span, (_, copied) in zip(spans, starts, strict=True)]


def _window_starts(files: Sequence[tuple[KeyMarks, Sequence[RowSpan]]], rows: int) -> list[tuple[int, bool]]:
    """Return the number of the mark with which each window begins, and whether its rows were copied. The
    first and the last mark belong to no copy: inputs may have keys around them that no output has.
    """
    copied = [flag for marks, spans in files for flag in _copied_marks(marks, spans)]
    copied[0] = False
    starts: list[tuple[int, bool]] = []
    for is_copied, members in groupby(range(len(copied)), key=lambda at: copied[at]):
        step = -(-(_COPIED_ROWS if is_copied else rows) // STRIDE)
        starts += [(at, is_copied) for at in list(members)[::step]]
    return starts


def _copied_marks(marks: KeyMarks, spans: Sequence[RowSpan]) -> list[bool]:
    """Return which marks have rows of one copy only, up to the next mark and with its row: no row that the
    merge took out lies between them.
    """
    if not marks.keys:
        return []
    ends = iter(sorted(spans))
    span = next(ends, None)
    flags = []
    for start, after in pairwise(marks.positions):
        while span is not None and span[1] <= after:
            span = next(ends, None)
        flags.append(span is not None and span[0] <= start)
    return [*flags, False]


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
