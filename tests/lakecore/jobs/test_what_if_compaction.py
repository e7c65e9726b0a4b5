"""A replay of compactions is judged by the compaction itself: by what it plans at each commit, and by what it does."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.clock import SystemClock
from lakecore.compact.compaction import Compaction
from lakecore.compact.engine.request import CompactRequest, RunName
from lakecore.compact.engine.target import RewriteTarget
from lakecore.compact.engine.work import Round, Strategy
from lakecore.errors import InvalidInputError
from lakecore.executor import SerialExecutor
from lakecore.jobs import compact, what_if
from lakecore.jobs.runner.lake import rewrite_target
from lakecore.jobs.what_if import Job
from lakecore.jobs.what_if.merges import CompactionReplay, ReplayRules, read_commits, replay_compactions
from tests.support.golden import GoldenTable, golden_tables
from tests.support.lake import append_table, key_table, live_files, memory_catalog, put

HOUR = 3_600_000
AGGRESSIVE = {"num-sorted-run.compaction-trigger": "2", "compaction.min.file-num": "2"}

Files = tuple[frozenset[str], frozenset[str]]


def _sampled() -> list[GoldenTable]:
    """Every fifteenth of the tables with several commits: tables of many kinds, whose compactions can all be replayed."""
    found = [table for table in golden_tables() if len(table.facts["snapshots"]) > 2]
    return found[::15]


def planned(target: RewriteTarget, snapshot: int, strategy: Strategy) -> set[Files]:
    """The files that a compaction would rewrite and move, had it run when this snapshot was the latest."""
    request = CompactRequest(run=RunName(commit_user="u", identifier=1), strategy=strategy)
    view = Round(
        snapshot=target.stores.snapshots.load(snapshot), executor=SerialExecutor(), file_prefix="none"
    )
    return {
        (
            frozenset(file.file_name for file in pick.replaced),
            frozenset(before.file_name for before, _ in pick.moved),
        )
        for pick in Compaction(target, request).plan(view).build().picks
    }


def first_round(target: RewriteTarget, snapshot: int, strategy: Strategy) -> set[Files]:
    """The files of a replay that begins at this snapshot."""
    history = read_commits(target, snapshot)
    rules = ReplayRules(strategy=strategy, times=None)
    at = history.commits[0].snapshot.time_millis
    runs = replay_compactions(target, history, rules, at).runs
    picks = runs[0].rounds[0] if runs and runs[0].snapshot == snapshot else ()
    assert all(pick.exact for pick in picks)
    return {
        (
            frozenset(file.file_name for file in pick.rewritten),
            frozenset(file.file_name for file in pick.moved),
        )
        for pick in picks
    }


@pytest.mark.parametrize("strategy", Strategy, ids=lambda one: one.value)
@pytest.mark.parametrize("golden", _sampled(), ids=lambda table: table.name)
def test_the_first_round_is_that_of_a_compaction(golden: GoldenTable, strategy: Strategy) -> None:
    table = load_catalog(str(golden.warehouse)).load_table(golden.name)
    options = {key: value for key, value in AGGRESSIVE.items() if key not in table.schema.options}
    target = rewrite_target(table.with_options(options), SystemClock())
    ids = target.stores.snapshots.list_ids()
    for snapshot in ids:
        assert first_round(target, snapshot, strategy) == planned(target, snapshot, strategy), snapshot


def rows(number: int, *, fresh: bool = False) -> list[dict[str, Any]]:
    """Each commit has as many rows: half of them with keys of the commit before, or all with `fresh` keys that lie between
    those of other commits. A file is about as large as its rows.
    """
    chance = random.Random(number)
    keys = range(number, 400, 20) if fresh else range(10 * number, 10 * number + 20)
    return [{"k": k, "v": chance.randbytes(2000).hex()} for k in keys]


@pytest.mark.parametrize("trigger", [2, 3, 5])
def test_a_replay_ends_as_a_table_that_was_compacted(trigger: int) -> None:
    """The same writes twice: one table is compacted after each of them, the other only in a replay. No row
    replaces another, so that estimated sizes are right.
    """
    options = {"num-sorted-run.compaction-trigger": str(trigger)}
    catalog = memory_catalog("what-if")
    table = key_table(catalog, file__compression="none")
    for number in range(9):
        catalog.clock.time_ms += HOUR
        put(table, rows(number, fresh=True))
    replayed = replay(catalog, options)
    by_snapshot = {run.snapshot: run for run in replayed.runs}
    catalog = memory_catalog("what-if")
    table = key_table(catalog, file__compression="none")
    runs = most = 0
    for number in range(9):
        catalog.clock.time_ms += HOUR
        put(table, rows(number, fresh=True))
        levels = [file.level for file in live_files(table)]
        most = max(most, levels.count(0) + len({*levels} - {0}))
        job = compact.Job(table=table.name, options=options, commit_identifier=number)
        report = compact.run(job, catalog, clock=catalog.clock)
        run = by_snapshot.get(number + 1)
        assert bool(report.snapshots) == (run is not None), number
        if run is not None:
            runs += 1
            levels = [file.level for file in live_files(table)]
            assert run.runs_after == levels.count(0) + len({*levels} - {0})
            assert run.picks[0].exact == (runs == 1), "only the first bucket is as it was"
            if runs == 1:
                assert run.picks[0].read_bytes == report.bytes_in
    assert runs > 1
    assert replayed.most_runs == most


def replay(catalog: Any, options: Mapping[str, str]) -> CompactionReplay:
    target = rewrite_target(catalog.load_table("d.k", options), catalog.clock)
    rules = ReplayRules(strategy=Strategy.UNIVERSAL, times=None)
    return replay_compactions(target, read_commits(target), rules, catalog.clock.now_ms())


def test_the_report_compares_what_was_with_what_would_have_been() -> None:
    catalog = memory_catalog("what-if")
    table = key_table(catalog)
    for number in range(8):
        catalog.clock.time_ms += HOUR
        put(table, rows(number))
        if number == 5:
            full = compact.Job(table=table.name, strategy=Strategy.FULL, commit_identifier=1)
            real = compact.run(full, catalog, clock=catalog.clock)
    options = {"num-sorted-run.compaction-trigger": "2"}
    report = what_if.run(Job(table="d.k", options=options), catalog, clock=catalog.clock)
    was, own, asked = report.compaction
    assert report.expiry == (), "the options concern compactions only"
    assert (was.compactions, was.read_bytes, was.written_bytes) == (1, real.bytes_in, real.bytes_out)
    assert asked.average_runs < own.average_runs
    assert asked.write_amplification is not None
    assert own.write_amplification is not None
    assert asked.write_amplification > own.write_amplification > 1
    assert any(f"{real.bytes_out / real.bytes_in:.4f}"[:5] in one for one in report.assumptions)


def test_runs_on_a_grid_of_times_see_what_was_written_before() -> None:
    catalog = memory_catalog("what-if")
    table = append_table(catalog, write_only="true")
    catalog.clock.time_ms = 1_699_999_200_000 + HOUR // 2  # half past an hour
    for number in range(6):
        put(table, [{"v": number, "p": "x"}])
        catalog.clock.time_ms += HOUR
    job = Job(table="d.a", strategy=Strategy.FULL, every_ms=2 * HOUR)
    report = what_if.run(job, catalog, clock=catalog.clock)
    runs = report.compaction[-1].runs
    assert [(run.runs_before, run.runs_after) for run in runs] == [(2, 1), (3, 1), (3, 1)]
    assert all(run.time_ms % (2 * HOUR) == 0 for run in runs)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"options": {"compaction.min.file-num": "3"}}, "'compaction.min.file-num' changes nothing"),
        ({"strategy": Strategy.FULL, "chores": ("expire-snapshots",)}, "it needs the chore compact"),
        (
            {"policy": [{"tables": ["*"], "chores": {"compact": {"strategy": "half"}}}]},
            "use one of universal, full",
        ),
    ],
    ids=["option of other tables", "strategy", "word"],
)
def test_what_changes_no_compaction_is_refused(fields: dict[str, Any], message: str) -> None:
    catalog = memory_catalog("what-if")
    put(key_table(catalog), [{"k": 1, "v": "a"}])
    with pytest.raises(InvalidInputError, match=message):
        what_if.run(Job(table="d.k", **fields), catalog, clock=catalog.clock)
