"""This module decides which snapshot a period's tag stands for, and what is to be done about it. Pure.

Local times are of the wall clock of the periods' zone, in milliseconds, counted as if it were UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.scan.auto_tags import AutoTagNames

__all__ = [
    "Period",
    "PeriodAction",
    "PeriodSnapshot",
    "Point",
    "Series",
    "State",
    "last_before",
    "periods_between",
    "plan",
    "retire",
]

_HOLE = "{period}"
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Series:
    """The names of the tags: `pattern` holds `{period}` once. Raises InvalidInputError."""

    names: AutoTagNames
    pattern: str = _HOLE

    def __post_init__(self) -> None:
        if self.pattern.count(_HOLE) != 1:
            raise InvalidInputError(
                f"name {self.pattern!r}: it must contain {_HOLE} once, as 'eod-{_HOLE}' does"
            )

    def name_of(self, local_ms: int) -> str:
        """Return the name of the tag of a local time. Raises InvalidInputError for a time without a name."""
        period = self.names.name_of(local_ms)
        if period is None:
            raise InvalidInputError(f"{local_ms} ms: tags can be named for the years 1970 to 9999 only")
        return self.pattern.replace(_HOLE, period)

    def time_of(self, name: str) -> int | None:
        """Return when the period of that tag began, or None for tags that are not of the series."""
        head, _, tail = self.pattern.partition(_HOLE)
        if not (name.startswith(head) and name.endswith(tail)) or len(name) < len(head) + len(tail):
            return None
        nanos = self.names.time_of(name[len(head) : len(name) - len(tail)])
        if nanos is None:
            return None
        time = nanos // 1_000_000
        return time if self.names.floor(time) == time and self.name_of(time) == name else None


@dataclass(frozen=True, slots=True)
class Point:
    """A snapshot that is known, with `clock_ms` of its commit or its watermark (None: it has none).

    `taggable` tells whether a snapshot file or a tag keeps it, so that it can be tagged. A changelog only
    tells that it existed.
    """

    snapshot: int
    clock_ms: int | None
    taggable: bool


@dataclass(frozen=True, slots=True)
class PeriodSnapshot:
    """The snapshot, or why there is none. `empty`: the table had none yet."""

    snapshot: int | None
    why: str = ""
    empty: bool = False


def last_before(points: Sequence[Point], end_ms: int) -> PeriodSnapshot:
    """Return the snapshot before the first one whose clock has reached `end_ms`. `points` are ordered by id,
    the latest last.

    It is only given when it is certain: an unknown snapshot between the two might have been the one. Clocks
    are taken to grow with ids, as the format assumes. It looks at some log2 of the points, and at those
    without a clock that it meets.
    """
    number = _first_at(points, end_ms)
    before = points[number - 1] if number else None
    after = points[number].snapshot if number < len(points) else None
    if before is None:
        if after is None or after == 1:
            return PeriodSnapshot(None, "the table had no snapshot before the end of the period", empty=True)
        return PeriodSnapshot(None, _expiry_text(1, after - 1))
    if after is not None and after != before.snapshot + 1:
        return PeriodSnapshot(None, _expiry_text(before.snapshot + 1, after - 1))
    if not before.taggable:
        return PeriodSnapshot(None, _expiry_text(before.snapshot, before.snapshot))
    return PeriodSnapshot(before.snapshot)


def _first_at(points: Sequence[Point], end_ms: int) -> int:
    """Return the place of the first point whose clock has reached `end_ms`, or the number of points if none
    has.
    """
    low, high, result = 0, len(points), len(points)
    while low < high:
        middle = (low + high) // 2
        timed = next((n for n in range(middle, high) if points[n].clock_ms is not None), None)
        clock = None if timed is None else points[timed].clock_ms
        if timed is None or clock is None:
            high = middle
        elif clock >= end_ms:
            result, high = timed, middle
        else:
            low = timed + 1
    return result


def _expiry_text(first: int, last: int) -> str:
    if first == last:
        return f"snapshot {first} has expired"
    return f"snapshots {first}-{last} have expired"


class State(Enum):
    THERE = "there"
    """The tag exists, and stands for what the rule says, as far as that is still known."""
    OTHER = "other"
    """The tag exists and stands for another snapshot."""
    NEW = "new"
    LOST = "lost"
    """It cannot be made any more."""
    EMPTY = "empty"
    """There was nothing to tag yet."""
    OPEN = "open"
    """The period is not over."""
    RETIRED = "retired"
    """The tag is so old that the number of tags to keep leaves it out."""


@dataclass(frozen=True, slots=True)
class Period:
    """A period has its beginning, by the wall clock, and the time from which it counts as over, since the
    epoch.
    """

    name: str
    begins_ms: int
    ends_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodAction:
    """It says what is to be done about a period. Its tag should name `snapshot`, and names `current` now."""

    period: Period
    state: State
    snapshot: int | None = None
    current: int | None = None
    why: str = ""


def periods_between(series: Series, first_ms: int, last_ms: int) -> tuple[int, ...]:
    """Return when the periods from that of `first_ms` to that of `last_ms` begin. Raises
    InvalidInputError.
    """
    length = series.names.length_ms
    begins, ends = series.names.floor(first_ms), series.names.floor(last_ms)
    if ends < begins:
        raise InvalidInputError(
            f"period {series.name_of(ends)} is before period {series.name_of(begins)}; the "
            "first period must not be after the last"
        )
    if (ends - begins) // length >= _MOST:
        raise InvalidInputError(f"there are more than {_MOST} periods; ask for fewer at a time")
    return tuple(range(begins, ends + length, length))


def plan(
    periods: Iterable[Period], points: Sequence[Point], tags: Mapping[str, int], *, over_ms: int | None
) -> tuple[PeriodAction, ...]:
    """Return an action for each period. `tags` are names and their snapshots. Periods that ended by `over_ms`
    are over.
    """
    return tuple(_duty(period, points, tags.get(period.name), over_ms) for period in periods)


def _duty(
    period: Period, points: Sequence[Point], snapshot_id: int | None, over_ms: int | None
) -> PeriodAction:
    if over_ms is None or over_ms < period.ends_ms:
        state = State.OPEN if snapshot_id is None else State.THERE
        return PeriodAction(period=period, state=state, current=snapshot_id, why="the period is not over")
    answer = last_before(points, period.ends_ms)
    if snapshot_id is not None:
        other = answer.snapshot is not None and answer.snapshot != snapshot_id
        state = State.OTHER if other else State.THERE
    elif answer.snapshot is not None:
        state = State.NEW
    else:
        state = State.EMPTY if answer.empty else State.LOST
    return PeriodAction(
        period=period, state=state, snapshot=answer.snapshot, current=snapshot_id, why=answer.why
    )


def retire(
    duties: Sequence[PeriodAction], series: Series, tags: Mapping[str, int], most: int | None
) -> tuple[tuple[PeriodAction, ...], tuple[str, ...]]:
    """Return the actions without those for which there is no room, and the tags of the series to delete.

    The newest `most` periods keep their tags; the newest of all is always among them. Other tags count as
    nothing.
    """
    there = {time: name for name in tags if (time := series.time_of(name)) is not None}
    new = {duty.period.begins_ms for duty in duties if duty.state is State.NEW}
    if most is None or len(there.keys() | new) <= most:
        return tuple(duties), ()
    staying = set(sorted(there.keys() | new)[-max(1, most) :])
    surplus = tuple(
        replace(d, state=State.RETIRED, why="enough newer tags are kept")
        if d.state is State.NEW and d.period.begins_ms not in staying
        else d
        for d in duties
    )
    return surplus, tuple(name for time, name in sorted(there.items()) if time not in staying)
