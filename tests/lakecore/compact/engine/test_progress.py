"""A compaction tells how far it is while a single pick is under way."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

import pytest

from lakecore.compact.engine.driver import RunSettings
from lakecore.compact.engine.outcome import Progress
from lakecore.executor import count_rows, watch_rows
from lakecore.jobs import compact
from lakecore.prefetch import prefetch
from tests.support.lake import append_table, key_table, memory_catalog, put

ROWS = [[{"k": n, "v": "x"}] for n in range(8)]


@pytest.mark.parametrize("keyed", [True, False], ids=["with a key", "append"])
def test_the_rows_of_one_pick_are_told_while_they_are_read(
    keyed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecore.compact.engine.run.RunSettings", partial(RunSettings, tell_seconds=0))
    catalog = memory_catalog("progress")
    table = key_table(catalog) if keyed else append_table(catalog)
    put(table, *(ROWS if keyed else [[{"v": 1, "p": "a"}]] * 8))
    lines: list[Progress] = []
    job = compact.Job(table=table.name, strategy=compact.Strategy.FULL)
    report = compact.run(job, catalog, None, catalog.clock, lines.append)
    assert (report.picks_done, report.rows_in) == (1, 8)
    first = [one for one in lines if one.picks_done == 0]
    assert [one.rows_done for one in first][:8] == [1, 2, 3, 4, 5, 6, 7, 8], "the pick is not committed yet"
    assert (lines[-1].picks_done, lines[-1].rows_done, lines[-1].rows) == (1, 8, 8)


def test_progress_is_told_some_seconds_apart() -> None:
    catalog = memory_catalog("seldom")
    table = key_table(catalog)
    put(table, *ROWS)
    lines: list[Progress] = []
    compact.run(
        compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog, None, catalog.clock, lines.append
    )
    assert [one.picks_done for one in lines] == [1], "the clock of this test stands still"


def test_threads_that_read_ahead_tell_the_same_listener() -> None:
    counts: list[int] = []

    def rows() -> Generator[int]:
        for number in (1, 2, 3):
            count_rows(number)
            yield number

    with watch_rows(counts.append):
        assert list(prefetch(rows())) == [1, 2, 3]
    count_rows(9)
    assert counts == [1, 2, 3]
