"""This module has the states of a table at the last survey of each day. No IO, no clock.

A record of a table has fourteen of them. As objects they are four fifths of the memory of a survey, so that a
record stores their numbers side by side, and makes the objects when they are asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from lakecore.data_class import dataclass

__all__ = ["DayPoint", "DayPoints"]

_NUMBERS = 5
"""A point has so many numbers."""


@dataclass(frozen=True, slots=True)
class DayPoint:
    """It has the state of a table at the last survey of a day: the score, files, bytes and most sorted
    runs of one bucket.
    """

    time_ms: int
    score: int
    files: int
    bytes: int
    sorted_runs: int


class DayPoints(Sequence[DayPoint]):
    """It is a sequence of points that takes 40 bytes for each. It never changes, and equals each sequence of
    the same points.
    """

    __slots__ = ("_numbers",)

    def __init__(self, points: Iterable[DayPoint] = ()) -> None:
        """Raises OverflowError for a number that does not fit into 64 bits."""
        self._numbers = array("q")
        for one in points:
            self._numbers.extend((one.time_ms, one.score, one.files, one.bytes, one.sorted_runs))

    def __len__(self) -> int:
        return len(self._numbers) // _NUMBERS

    def __iter__(self) -> Iterator[DayPoint]:
        numbers = iter(self._numbers)
        return (DayPoint(*five) for five in zip(*[numbers] * _NUMBERS, strict=True))

    @overload
    def __getitem__(self, at: int) -> DayPoint: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[DayPoint, ...]: ...

    def __getitem__(self, at: int | slice) -> DayPoint | tuple[DayPoint, ...]:
        if isinstance(at, slice):
            return tuple(self)[at]
        first = range(len(self))[at] * _NUMBERS
        return DayPoint(*self._numbers[first : first + _NUMBERS])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DayPoints):
            return self._numbers == other._numbers
        if isinstance(other, Sequence) and not isinstance(other, str):
            return tuple(self) == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))
