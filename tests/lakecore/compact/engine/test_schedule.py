"""The order of picks, and which units get a second thread."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakecore.compact.engine.schedule import largest_first, with_second_threads
from lakecore.compact.engine.work import Place, WorkPick


class _Unit:
    threads = 1

    def with_second_thread(self) -> _Unit:
        other = _Unit()
        other.threads = 2
        return other


def pick(rows: int, units: int = 1) -> WorkPick:
    held: Any = SimpleNamespace(row_count=rows)
    some: Any = tuple(_Unit() for _ in range(units))
    return WorkPick(
        name=str(rows),
        place=Place(b"", 0, 1),
        bucket_dir="",
        reason="",
        replaced=(held,),
        units=some,
    )


def test_large_picks_go_first_among_those_of_a_commit() -> None:
    found = largest_first([pick(rows) for rows in (3, 1, 5, 2, 9, 4)], 3)
    assert [one.rows for one in found] == [5, 3, 1, 9, 4, 2]


@pytest.mark.parametrize(
    ("picks", "cores", "threads"),
    [
        ([(8, 1)] * 4, 2, "1 1 1 1"),
        ([(8, 1)] * 3, 2, "1 1 2"),
        ([(8, 1), (8, 1), (8, 1), (7, 1)], 2, "1 1 1 1"),
        ([(8, 1), (8, 1), (8, 1), (5, 1)], 2, "1 1 2 1"),
        ([(8, 1)], 2, "2"),
        ([(8, 1)], 1, "1"),
        ([(8, 2)], 2, "11"),
        ([(9, 3)], 2, "112"),
        ([(9, 1), (2, 2), (1, 1)], 2, "2 11 1"),
        ([(9, 3), (0, 0), (1, 1)], 4, "222  1"),
        ([], 4, ""),
    ],
)
def test_units_that_would_end_alone_get_a_second_thread(
    picks: list[tuple[int, int]], cores: int, threads: str
) -> None:
    found: Any = with_second_threads([pick(rows, units) for rows, units in picks], cores)
    assert " ".join("".join(str(unit.threads) for unit in one.units) for one in found) == threads
