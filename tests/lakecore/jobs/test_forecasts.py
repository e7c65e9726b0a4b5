"""A dry run tells what the run then does, and learns from it; nothing is written by it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import BusyError, UnavailableError
from lakecore.jobs import compact, expire_snapshots, quarantine, rewrite_file_index
from lakecore.jobs.repair import metadata as repair
from lakecore.jobs.repair import unexisting
from lakecore.jobs.runner.chore import Report, Safety
from lakecore.jobs.runner.chore_many import run_many
from lakecore.jobs.runner.counts import Counts, counts_of_entries
from lakecore.jobs.runner.forecast import Work, expected_seconds
from lakecore.jobs.runner.lake import target_of
from lakecore.jobs.runner.limits import Limits
from lakecore.jobs.versions import branches, merge_branch, tags
from lakecore.maintain.forecast.history import MOST_RUNS, HistoryStore
from lakecore.maintain.lease.lease import LeaseTimes, leased
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.table import Table
from tests.support.chores import CHORES, Run
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultyFileIO
from tests.support.lake import append_table, key_table, live_files, memory_catalog, paths_of, put

SHAPES = ("files", "sorted_runs", "levels")


@pytest.fixture
def catalog() -> FilesystemCatalog:
    return memory_catalog()


def job(table: Table, **fields: Any) -> compact.Job:
    return compact.Job(table=table.name, **({"strategy": compact.Strategy.FULL} | fields))


def fill(table: Table, commits: int = 4) -> None:
    for n in range(commits):
        put(table, [{"k": k, "v": f"{n}.{k}"} for k in range(n, n + 5)])


@pytest.mark.parametrize("strategy", list(compact.Strategy))
@pytest.mark.parametrize("kind", ["keyed", "upgrades", "append"])
def test_a_dry_run_tells_the_shape_that_the_run_leaves(
    catalog: FilesystemCatalog, kind: str, strategy: compact.Strategy
) -> None:
    if kind == "append":
        table = append_table(catalog, columns=("k INT", "v STRING"), target_file_size="1 mb")
        fill(table, 7)
    else:
        table = key_table(catalog, num_sorted_run__compaction_trigger="3")
        fill(table, 5)
        if kind == "upgrades":
            compact.run(job(table), catalog, clock=catalog.clock)
            put(table, *([{"k": k, "v": "far"}] for k in (1000, 2000, 3000)))
    before = paths_of(table, "")
    told = compact.run(job(table, strategy=strategy, dry_run=True), catalog, clock=catalog.clock)
    assert paths_of(table, "") == before
    assert told.forecast is not None
    done = compact.run(job(table, strategy=strategy), catalog, clock=catalog.clock)
    if kind == "append" and strategy is compact.Strategy.UNIVERSAL:
        assert told.before.files > told.after.files > done.after.files, "it tells of the first round"
    else:
        assert [getattr(told.after, one) for one in SHAPES] == [getattr(done.after, one) for one in SHAPES]
    assert told.after.rows >= done.after.rows
    assert told.to_json()["forecast"]["based_on"].startswith(("defaults", "1 earlier"))


def test_runs_are_remembered_and_learnt_from(catalog: FilesystemCatalog) -> None:
    table, clock = key_table(catalog), catalog.clock
    assert isinstance(clock, FakeClock)
    for _ in range(3):
        fill(table, 2)
        compact.run(job(table), catalog, clock=clock)
    assert compact.run(job(table), catalog, clock=clock).nothing_to_do
    lines = HistoryStore(catalog.file_io, catalog.warehouse).lines(table.name, "compact")
    assert [line.work["rows"] for line in lines] == [10, 16, 16]
    assert [line.outcome["rows_out"] for line in lines] == [6, 6, 6]
    assert "defaults" in lines[0].estimate["based_on"]
    assert lines[0].outcome["memory"] > 10 << 20
    fill(table, 2)
    told = compact.run(job(table, dry_run=True), catalog, clock=clock)
    assert told.forecast is not None
    assert [record.job for record in quarantine.runs_of(catalog, table.name)] == ["compact"] * 3
    for _ in range(MOST_RUNS):
        fill(table, 2)
        compact.run(job(table), catalog, clock=clock)
    assert len(HistoryStore(catalog.file_io, catalog.warehouse).lines(table.name, "compact")) == MOST_RUNS


def test_processes_divide_what_is_assumed_and_not_what_was_measured(catalog: FilesystemCatalog) -> None:
    table, clock = key_table(catalog), catalog.clock
    work = Work(files=10, bytes=1 << 30, rows=10**7)
    target = target_of(table, catalog, clock)
    assumed = expected_seconds(target, "compact", work)
    assert expected_seconds(target, "compact", work, processes=4) == assumed / 4
    fill(table, 2)
    compact.run(job(table), catalog, clock=clock)
    measured = expected_seconds(target, "compact", work)
    assert expected_seconds(target, "compact", work, processes=4) == measured


class NoHistory(FaultyFileIO):
    """Storage where the history can be neither read nor written."""

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        if "/history/" in path:
            raise UnavailableError(f"{name} {path}")
        return effect()


def test_a_history_that_cannot_be_read_or_written_is_no_failure(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    fill(table)
    store = HistoryStore(catalog.file_io, catalog.warehouse)
    catalog.file_io.overwrite(f"{store.root}/d.k/compact.json", b'[{"odd": 1}]')
    lame = replace(catalog, file_io=NoHistory(catalog.file_io))
    told = compact.run(job(table, dry_run=True), lame, clock=catalog.clock)
    assert told.forecast is not None
    assert compact.run(job(table), lame, clock=catalog.clock).snapshots
    fill(table)
    assert compact.run(job(table), catalog, clock=catalog.clock).snapshots
    (line,) = store.lines(table.name, "compact")
    assert line.work["files"] == 5


@pytest.mark.parametrize("started", [-1, "1", True, 1.5, None, 10**18], ids=repr)
def test_a_line_that_began_at_no_time_is_ignored(catalog: FilesystemCatalog, started: Any) -> None:
    """Its file is: whoever shows the lines need not expect such a time."""
    store = HistoryStore(catalog.file_io, catalog.warehouse)
    line = {"table": "d.k", "job": "compact", "started_ms": 5, "engine": "local", "work": {"rows": 1}}
    place = f"{store.root}/d.k/compact.json"
    catalog.file_io.overwrite(place, json.dumps([line]).encode())
    assert [one.started_ms for one in store.of()] == [5]
    catalog.file_io.overwrite(place, json.dumps([line | {"started_ms": started}]).encode())
    assert not list(store.of())


def test_a_dry_run_of_expiry_and_the_ledger_count_alike(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    fill(table, 5)
    compact.run(job(table), catalog, clock=catalog.clock)

    def expire(*, dry_run: bool = False) -> Report:
        wanted = expire_snapshots.Job(table=table.name, retain_max=1, retain_min=1, dry_run=dry_run)
        return expire_snapshots.run(wanted, catalog)

    told = expire(dry_run=True)
    done = expire()
    (record,) = [one for one in quarantine.runs_of(catalog, table.name) if one.job == "expire-snapshots"]
    assert told.files == done.files == record.estimate["files"] == record.outcome["files"] > 5
    assert told.bytes == done.bytes == record.outcome["bytes"]
    assert told.forecast is not None
    assert told.estimated_seconds == told.forecast.seconds
    assert "defaults" in told.forecast.based_on
    fill(table, 2)
    again = expire(dry_run=True)
    assert again.forecast is not None
    assert "1 earlier run" in again.forecast.based_on


def test_indexes_of_several_tables_are_made_at_once_and_foretold(catalog: FilesystemCatalog) -> None:
    options = {"file-index.bloom-filter.columns": "v"}
    tables = [catalog.create_table(f"d.t{n}", {"columns": ["v INT"]}) for n in range(4)]
    for table in tables:
        put(table, *([{"v": n}] for n in range(3)))

    def rewrite(*, dry_run: bool) -> list[rewrite_file_index.Report]:
        names = [*(table.name for table in tables), "d.none"]
        wanted = [rewrite_file_index.Job(table=one, options=options, dry_run=dry_run) for one in names]
        return rewrite_file_index.run_many(wanted, catalog, clock=catalog.clock)

    told, done = rewrite(dry_run=True), rewrite(dry_run=False)
    assert [one.files for one in done] == [one.planned for one in told] == [3, 3, 3, 3, 0]
    assert [one.forecast is None for one in told] == [False] * 4 + [True]
    assert [one.error is None for one in done] == [True] * 4 + [False]
    assert [record.job for record in quarantine.runs_of(catalog)] == ["rewrite-file-index"] * 4


def test_the_risk_is_told_from_the_table(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, write_only="false")
    fill(table)
    tags.run(
        tags.CreateTag(table=table.name, tag="eod", safety=Safety(lease_ms=0)), catalog, clock=catalog.clock
    )
    table.write(pa.table({"k": pa.array([1], pa.int32()), "v": ["x"]}))
    with leased(
        catalog.file_io, catalog.warehouse, table.name, "nightly 1", catalog.clock, LeaseTimes(60_000)
    ):
        told = compact.run(job(table, dry_run=True), catalog, clock=catalog.clock)
    assert told.forecast is not None
    risk = told.forecast.risk
    assert (risk.level, risk.compactor) == ("high", False)
    assert "nightly 1 holds the table's lease" in risk.words
    assert any("tag eod" in text for text in risk.holders)


@pytest.mark.parametrize(("plan_bytes", "most"), [(1 << 30, 3), (1, 1)])
def test_chores_of_many_tables_run_at_once_and_tell_of_each(
    catalog: FilesystemCatalog, plan_bytes: int, most: int
) -> None:
    tables = [catalog.create_table(f"d.t{n}", {"columns": ["v INT"]}) for n in range(8)]
    for table in tables:
        put(table, *([{"v": n}] for n in range(4)))
    busy, gone = tables[2], "d.none"

    at_work: list[str] = []
    at_once: list[int] = []

    def expire(wanted: expire_snapshots.Job) -> Report:
        at_work.append(wanted.table)
        at_once.append(len(at_work))
        try:
            return expire_snapshots.run(wanted, catalog, clock=catalog.clock)
        finally:
            at_work.remove(wanted.table)

    wanted = [
        expire_snapshots.Job(table=name, retain_max=1, retain_min=1, safety=Safety(quarantine=True))
        for name in (*(table.name for table in tables), gone)
    ]
    with leased(
        catalog.file_io, catalog.warehouse, busy.name, "nightly 1", catalog.clock, LeaseTimes(60_000)
    ):
        reports = run_many(wanted, expire, catalog, limits=Limits(tables=3, plan_bytes=plan_bytes))
        assert max(at_once) <= most
        with pytest.raises(BusyError):
            expire(wanted[2])
    assert [one.table for one in reports] == [one.table for one in wanted]
    assert [one.error_class for one in reports] == [None] * 8 + ["NotFoundError"]
    assert "nightly 1" in reports[2].skipped
    assert reports[2].error is None
    assert [len(table._stores.snapshots.list_ids()) for table in tables] == [
        4 if t is busy else 1 for t in tables
    ]


UNTOLD = {
    **dict.fromkeys(("expire", "delete-tag", "expire-partitions", "fast-forward", "rollback"), ()),
    **dict.fromkeys(("rollback-to-tag", "rollback-as-latest", "compact-manifest", "orphans"), ()),
    **dict.fromkeys(("rewrite-file-index", "analyze"), ()),
    "drop-partition": ("snapshots",),
    "rescale": ("files",),
}
"""Chores, and which of files, rows and snapshots no dry run can tell. The lists tell no bytes, no sorted runs."""


@pytest.mark.parametrize("name", UNTOLD)
def test_a_dry_run_counts_what_the_chore_then_leaves(name: str) -> None:
    chore = CHORES[name]
    assert isinstance(chore.run, Run)
    made = chore.make(f"counts-{name}")
    told = chore.run(made.catalog, dry_run=True)
    target = target_of(made.table, made.catalog, made.catalog.clock)
    before = full_counts(target)
    assert not told.nothing_to_do
    assert agree(told.before, before) >= {"files", "rows", "snapshots"}
    chore.run(made.catalog)
    assert agree(told.after, full_counts(target)) >= {"files", "rows", "snapshots"} - set(UNTOLD[name])
    [line] = HistoryStore(made.catalog.file_io, made.catalog.warehouse).lines(made.table.name, told_job(told))
    assert any(line.work.values()), "what takes the time is counted"
    assert line.estimate["seconds"] == told.forecast.seconds, "of a dry run and of a run alike"


def told_job(report: Any) -> str:
    return getattr(report, "job", "rewrite-file-index")


def test_a_first_forecast_grows_with_the_table(catalog: FilesystemCatalog) -> None:
    told = []
    for name, commits in (("few", 5), ("many", 50)):
        table = catalog.create_table(
            f"d.{name}", {"columns": ["v INT"], "options": {"manifest.merge-min-count": "99"}}
        )
        put(table, *([{"v": n}] for n in range(commits)))
        wanted = repair.CompactManifest(table=table.name, dry_run=True)
        found = repair.run(wanted, catalog, clock=catalog.clock).forecast
        assert found is not None
        told.append(found.seconds - 0.1)
    assert told[1] == pytest.approx(10 * told[0], rel=0.1)


def full_counts(target: Target) -> Counts:
    latest = target.snapshots.latest()
    assert latest is not None
    entries = live_entries(target.manifests.read(target.manifests.data_manifests(latest)), where="here")
    return counts_of_entries(target, entries)


def agree(told: Counts, found: Counts) -> set[str]:
    """The counts that were told, which must be right."""
    known = {name for name, value in asdict(told).items() if value is not None}
    assert {name: getattr(told, name) for name in known} == {name: getattr(found, name) for name in known}
    return known


def test_a_merge_and_the_removal_of_what_is_gone_are_counted(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog, ("v INT",))
    put(table, [{"v": 1}], [{"v": 2}])
    tags.run(tags.CreateTag(table=table.name, tag="t"), catalog, clock=catalog.clock)
    branches.run(branches.CreateBranch(table=table.name, branch="b", tag="t"), catalog, clock=catalog.clock)
    put(table.at_branch("b"), [{"v": 3}, {"v": 4}])
    known = live_files(table)
    merging = merge_branch.Job(table=table.name, source_branch="b")
    removing = unexisting.RemoveUnexistingFiles(table=table.name, accept_rows=2)
    for module, wanted, rows in ((merge_branch, merging, 4), (unexisting, removing, 2)):
        told = module.run(replace(wanted, dry_run=True), catalog, clock=catalog.clock)
        target = target_of(table, catalog, catalog.clock)
        assert agree(told.before, full_counts(target)) >= {"files", "rows", "snapshots"}
        module.run(wanted, catalog, clock=catalog.clock)
        after = full_counts(target)
        assert agree(told.after, after) >= {"files", "rows", "snapshots"}
        assert after.rows == rows
        for file in set(live_files(table)) - set(known):
            catalog.file_io.delete(f"{table.path}/bucket-0/{file.file_name}")
