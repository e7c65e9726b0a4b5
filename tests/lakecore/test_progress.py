"""A compaction tells how far it is while a single pick is under way."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.executor import UnitWork, count_proven_rows, count_rows, run_counted, unit_key, watch_units
from lakecore.jobs import compact
from lakecore.prefetch import prefetch
from lakecore.processes.executor import ProcessExecutor
from lakecore.progress import Progress, RunProgress
from tests.lakecore.processes import units
from tests.support.lake import append_table, key_table, memory_catalog, put

ROWS = [[{"k": n, "v": "x"}] for n in range(8)]


@pytest.mark.parametrize("keyed", [True, False], ids=["with a key", "append"])
def test_the_rows_of_one_pick_are_told_while_they_are_read(
    keyed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecore.compact.engine.run.TELL_SECONDS", 0)
    catalog = memory_catalog("progress")
    table = key_table(catalog) if keyed else append_table(catalog)
    put(table, *(ROWS if keyed else [[{"v": 1, "p": "a"}]] * 8))
    lines: list[Progress] = []
    job = compact.Job(table=table.name, strategy=compact.Strategy.FULL)
    report = compact.run(job, catalog, None, catalog.clock, lines.append)
    assert (report.picks_done, report.rows_in) == (1, 8)
    first = [one for one in lines if one.picks_done == 0]
    told = {
        one.rows_done for one in first
    }  # the proof reads the inputs at the same time, and tells that, too
    assert told - {0} == {1, 2, 3, 4, 5, 6, 7, 8}, "the pick is not committed yet"
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
    told: list[UnitWork] = []

    def rows() -> Generator[int]:
        for number in (1, 2, 3):
            count_rows(number)
            yield number

    def read(unit: _Unit) -> list[int]:
        count_proven_rows(5)
        return list(prefetch(rows()))

    with watch_units(told.append):
        assert run_counted(read, _Unit("bucket-0")) == [1, 2, 3]
        count_rows(7)
    run_counted(read, _Unit("bucket-1"))
    key = (unit_key("bucket-0"),)
    assert told == [UnitWork(key, 0, 5), *(UnitWork(key, rows, 5) for rows in (1, 3, 6))]


class Listener:
    """It keeps what a run tells, and sees that it goes on only."""

    def __init__(self) -> None:
        self.told: list[Progress] = []

    def __call__(self, one: Progress) -> None:
        assert 0 <= one.rows_done <= one.rows
        assert 0.0 <= one.share <= 1.0
        if self.told:
            last = self.told[-1]
            assert one.share >= last.share
            assert one.rows_done >= last.rows_done
        self.told.append(one)


@dataclass(frozen=True, slots=True)
class _Unit:
    name: str
    rows: int = 0


@dataclass(frozen=True, slots=True)
class _Pick:
    units: tuple[_Unit, ...]
    rows: int


def run_progress(listener: Listener, *picks: _Pick, groups: int = 1) -> RunProgress:
    progress = RunProgress(listener, lambda: 0.0, 0)
    progress.set_groups(groups)
    progress.begin_group()
    progress.begin_round(cast("Any", picks))
    return progress


def test_the_proof_is_work_and_attempts_that_begin_anew_take_nothing_back() -> None:
    listener = Listener()
    progress = run_progress(
        listener, _Pick((_Unit("a", 60), _Unit("b", 40)), 100), _Pick((_Unit("c", 100),), 100)
    )

    def tell(name: str, read: int, proven: int) -> Progress:
        progress.take(UnitWork((unit_key(name),), read, proven))
        return progress.now()

    assert tell("a", 30, 0).rows_done == 30
    read = tell("a", 60, 0)
    assert (read.rows_done, read.rows_proven, round(read.share, 3)) == (60, 0, 0.2)
    assert tell("a", 60, 60).rows_proven == 30, "a proof reads a row twice"
    lost = tell("a", 0, 0)
    assert (lost.rows_done, lost.rows_proven) == (60, 30), "its worker was killed; another one begins"
    assert tell("a", 900, 900).rows_done == 60, "more rows than were planned"
    assert tell("unknown", 100, 100).rows_done == 60
    progress.end_unit("a")
    progress.end_unit("b")
    progress.commit(1)
    assert (listener.told[-1].picks_done, listener.told[-1].share) == (1, 0.5)
    progress.end_unit("c")
    progress.commit(2)
    assert listener.told[-1] == Progress(2, 2, 200, 200, 200, 1.0)


def test_rounds_and_groups_add_up() -> None:
    listener = Listener()
    progress = run_progress(listener, _Pick((_Unit("a", 10),), 10), groups=2)
    progress.end_unit("a")
    progress.commit(1)
    assert listener.told[-1].share == 0.5, "a group of two"
    progress.begin_round(cast("Any", [_Pick((_Unit("a", 10),), 10)]))
    progress.end_unit("a")
    progress.begin_group()
    progress.begin_round(cast("Any", [_Pick((_Unit("d", 0), _Unit("e", 0)), 0)]))
    progress.commit(1)
    assert listener.told[-1] == Progress(3, 3, 20, 20, 20, 1.0)


def test_rows_inside_of_units_of_workers_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecore.compact.engine.run.TELL_SECONDS", 0)
    catalog = load_catalog(str(tmp_path))
    catalog.create_database("d")
    table = key_table(catalog)
    job = compact.Job(table=table.name, strategy=compact.Strategy.FULL)
    with ProcessExecutor(2) as executor:
        monkeypatch.setattr(executor, "_here", True)  # this process is busy, so that a worker runs each unit
        assert list(executor.run(units.tell_at_once, [0])) == [0]
        for pooled in (False, True):
            put(table, *ROWS)
            listener = Listener()
            if pooled:
                callbacks = compact.Callbacks(on_progress=lambda _, one, tell=listener: tell(one))  # type: ignore[misc]
                (report,) = compact.run_many([job], catalog, executor, catalog.clock, callbacks)
            else:
                report = compact.run(job, catalog, executor, catalog.clock, listener)
            assert (report.picks_done, report.error) == (1, None)
            inside = [one for one in listener.told if one.picks_done == 0]
            assert len({one.rows_done for one in inside}) >= 8, "a message for each file, of one row or more"
            assert any(0 < one.rows_proven < one.rows for one in inside), "the proof is told, too"
            rows = report.rows_in
            assert listener.told[-1] == Progress(1, 1, rows, rows, rows, 1.0)
