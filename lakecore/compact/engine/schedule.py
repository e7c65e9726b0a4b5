"""This module decides in which order picks are run, and which of their units get a second thread. Pure.

A unit left alone at the end keeps every other core idle. So large picks go first, and a unit that is expected
to outlast the others decodes in one thread and encodes in another. It costs a sort of the picks.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import accumulate

from lakecore.compact.engine.work import WorkPick
from lakecore.executor import Executor

__all__ = ["COMMIT_PICKS", "largest_first", "scheduled", "with_second_threads"]

COMMIT_PICKS = 256
"""This is the largest number of picks of one commit."""

_SOME_WORK = 16 << 20
"""The bytes that take a second or less on one core: no thread shortens that by much."""

_WORTH = 4
"""A second thread costs a unit 5 % more CPU: it gets one if a core would idle for a quarter of its time."""


def largest_first(picks: Sequence[WorkPick], window: int = COMMIT_PICKS) -> tuple[WorkPick, ...]:
    """Return the picks by rows, the most first, within each `window` picks, which are committed together."""
    return tuple(
        pick
        for start in range(0, len(picks), window)
        for pick in sorted(picks[start : start + window], key=lambda pick: -pick.rows)
    )


def with_second_threads(picks: Sequence[WorkPick], cores: int) -> tuple[WorkPick, ...]:
    """Return `picks` in their order with second threads, on so many cores, of which each takes the next unit
    when it is free.
    """
    alone = _left_alone([pick.rows // len(pick.units) for pick in picks for _ in pick.units], cores)
    ends = accumulate(len(pick.units) for pick in picks)
    return tuple(
        _with_threads(pick, [i for i in range(len(pick.units)) if end - len(pick.units) + i in alone])
        for pick, end in zip(picks, ends, strict=True)
    )


def scheduled(picks: Sequence[WorkPick], engine: Executor) -> tuple[WorkPick, ...]:
    """Return the picks largest first, with second threads where they help. All units of the local engine get
    one, unless it runs several at once and there is some work.

    It asks the engine for its cores only if there is some work: it may take seconds to start.
    """
    is_some_work = sum(pick.size for pick in picks) >= _SOME_WORK
    if engine.name == "local" and not (is_some_work and engine.parallelism > 1):
        return tuple(_with_threads(pick, range(len(pick.units))) for pick in picks)
    ordered = largest_first(picks)
    if not is_some_work:
        return ordered
    return with_second_threads(ordered, engine.parallelism)


def _with_threads(pick: WorkPick, indexes: Collection[int]) -> WorkPick:
    """Return the pick with a second thread for these of its units."""
    if not indexes:
        return pick
    units = (unit.with_second_thread() if i in indexes else unit for i, unit in enumerate(pick.units))
    return replace(pick, units=tuple(units))


def _left_alone(rows: Sequence[int], cores: int) -> set[int]:
    """Return the units (by number) during which another core has nothing left to do for `1 / _WORTH` of their
    time.
    """
    free: list[tuple[int, int, int]] = [(0, -1 - core, 0) for core in range(cores)]
    for number, count in enumerate(rows):
        heapq.heapreplace(free, (free[0][0] + count, number, count))
    first = free[0][0]
    return {number for end, number, count in free if number >= 0 and (end - first) * _WORTH > count}
