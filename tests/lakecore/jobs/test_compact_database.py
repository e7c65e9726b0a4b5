"""Many tables in one job: which, what becomes of each, what they share, when it ends, and a second try."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.errors import BusyError, InvalidInputError
from lakecore.executor import SerialExecutor
from lakecore.jobs import attempts, compact, survey
from lakecore.jobs.compact import Callbacks
from lakecore.jobs.compact_database import Job, PatternNames, Report, run, tables_of
from lakecore.maintain.lease.heartbeat import Heartbeat
from lakecore.maintain.lease.lease import LeaseTimes, leased
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from tests.support.fake_clock import FakeClock
from tests.support.killing_fs import ChangingFileIO, KillPoint, run_and_die
from tests.support.lake import live_files, memory_catalog, paths_of, put, rows_of
from tests.support.oracle import Oracle, findings

KEYED = {
    "columns": ["k INT", "v STRING"],
    "primaryKeys": ["k"],
    "options": {"bucket": "1", "write-only": "true"},
}
ORPHANS = ("orphan: manifest", "orphan: index-manifest", "orphan: .", "orphan: data-")
"""What a killed commit leaves for the removal of orphans, and what a writer had begun."""
WANTED = Job(strategy=compact.Strategy.FULL, commit_user="test")


def fill(catalog: FilesystemCatalog, *names: str, commits: int = 3) -> list[Table]:
    tables = [catalog.create_table(name, KEYED) for name in names]
    for number, table in enumerate(tables):
        put(table, *([{"k": k, "v": f"{number}.{n}.{k}"} for k in range(n, n + 3)] for n in range(commits)))
    return tables


def compact_all(warehouse: str) -> Report:
    return run(WANTED, load_catalog(warehouse))


@pytest.fixture
def catalog() -> FilesystemCatalog:
    return memory_catalog()


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ({}, ["a.t1", "a.t2", "ab.t1"]),
        ({"including_databases": "a"}, ["a.t1", "a.t2"]),
        ({"including_tables": "t1"}, []),
        ({"including_tables": r".*\.t1"}, ["a.t1", "ab.t1"]),
        ({"including_databases": "a|ab", "excluding_tables": r"a\..*"}, ["ab.t1"]),
    ],
)
def test_patterns_are_whole_names(catalog: FilesystemCatalog, patterns: Any, names: list[str]) -> None:
    for name in ("a.t1", "a.t2", "ab.t1"):
        catalog.create_table(name, KEYED)
    assert tables_of(Job(**patterns), catalog) == names
    assert Job.from_json(Job(**patterns).to_json()) == Job(**patterns)


def test_what_cannot_be_a_pattern_or_limit_is_refused(catalog: FilesystemCatalog) -> None:
    with pytest.raises(InvalidInputError, match=r"--excluding-tables '\('"):
        run(Job(excluding_tables="("), catalog)
    with pytest.raises(InvalidInputError, match="max-concurrent-tables"):
        run(Job(max_concurrent_tables=0), catalog)


def test_one_bad_table_does_not_stop_the_others_and_is_an_error(catalog: FilesystemCatalog) -> None:
    tables = fill(catalog, *(f"d.t{n:02}" for n in range(12)))
    before = [rows_of(table) for table in tables]
    broken, busy, idle = tables[3], tables[5], catalog.create_table("d.zz", KEYED)
    latest = broken._stores.snapshots.latest()
    assert latest is not None
    catalog.file_io.overwrite(
        f"{broken._stores.paths.manifest_dir}/{latest.delta_manifest_list}", b"not avro"
    )
    seen: list[str] = []
    with leased(
        catalog.file_io, catalog.warehouse, busy.name, "nightly x", catalog.clock, LeaseTimes(60_000)
    ):
        report = run(
            WANTED,
            catalog,
            clock=catalog.clock,
            callbacks=Callbacks(on_done=lambda one: seen.append(one.table)),
        )
    assert (
        sorted(seen) == [one.table for one in report.tables] == [f"d.t{n:02}" for n in range(12)] + ["d.zz"]
    )
    assert report.counts() == {"tables": 13, "changed": 10, "failed": 1, "skipped": 1, "nothing_to_do": 1}
    (failed,) = report.failed
    assert (failed.table, failed.error_class) == (broken.name, "CorruptDataError")
    (skipped,) = report.skipped
    assert skipped.table == busy.name
    assert "maintained by nightly x" in skipped.skipped
    assert idle._stores.snapshots.latest_id() is None
    done = [(table, rows) for table, rows in zip(tables, before, strict=True) if table not in (broken, busy)]
    for table, rows in done:
        assert rows_of(table) == rows
        assert len(live_files(table)) == 1
    again = run(WANTED, catalog, clock=catalog.clock)
    assert [one.table for one in again.changed] == [f"d.t{n:02}" for n in range(12) if n != 3]
    assert [one.snapshots for one in again.tables if one.table == busy.name] != [()]
    raw = report.to_json()
    assert [one["table"] for one in raw["reports"]] == [f"d.t{n:02}" for n in range(12)]


def test_nothing_is_written_for_tables_in_good_shape(catalog: FilesystemCatalog) -> None:
    fill(catalog, "d.a", "d.b", commits=1)
    run(WANTED, catalog, clock=catalog.clock)

    class NoUnits(SerialExecutor):
        @property
        def parallelism(self) -> int:  # type: ignore[override]
            raise AssertionError("no engine is needed")

    storage = catalog.file_io
    found = {status.path for status in storage.list(f"{catalog.warehouse}/.lakecore")}
    report = run(replace(WANTED, commit_user="other"), catalog, NoUnits(), catalog.clock)
    assert report.counts()["nothing_to_do"] == 2
    assert {status.path for status in storage.list(f"{catalog.warehouse}/.lakecore")} == found


@pytest.mark.parametrize("skip", [False, True])
def test_tables_this_release_cannot_compact_may_be_skipped(catalog: FilesystemCatalog, skip: bool) -> None:
    fill(catalog, "d.fine")
    places = {
        "data-file.external-paths": "s3://b/x",
        "data-file.external-paths.strategy": "round-robin",
    }
    elsewhere = {"options": places}
    catalog.create_table("d.odd", {"columns": ["v INT"]} | elsewhere)
    report = run(replace(WANTED, skip_unsupported=skip), catalog, clock=catalog.clock)
    assert len(report.changed) == 1
    assert [one.error_class for one in report.failed] == ([] if skip else ["UnsupportedError"])
    assert ["external-paths" in one.skipped for one in report.skipped] == ([True] if skip else [])


def test_no_table_is_begun_when_the_time_is_up(catalog: FilesystemCatalog) -> None:
    tables = fill(catalog, "d.a", "d.b", "d.c")
    clock = catalog.clock
    assert isinstance(clock, FakeClock)
    wanted = replace(WANTED, until_ms=clock.now_ms() + 1_000_000, max_concurrent_tables=1)

    def done(report: compact.Report) -> None:
        clock.sleep(2_000)

    report = run(wanted, catalog, clock=clock, callbacks=Callbacks(on_done=done))
    assert [bool(one.skipped) for one in report.tables] == [False, True, True]
    assert "time of the job ended" in report.tables[1].skipped
    assert [len(live_files(table)) for table in tables] == [1, 3, 3]


def test_tables_that_a_window_left_are_late_and_come_first_in_the_next(catalog: FilesystemCatalog) -> None:
    fill(catalog, "d.a", "d.b", "d.c")
    clock = catalog.clock
    assert isinstance(clock, FakeClock)
    night = replace(WANTED, max_concurrent_tables=1, until_ms=clock.now_ms() + 1_000_000)
    begun: list[str] = []

    def done(report: compact.Report) -> None:
        begun.extend([] if report.skipped else [report.table])
        clock.sleep(2_000)

    run(night, catalog, clock=clock, callbacks=Callbacks(on_done=done))
    ledger = attempts.attempts_of(catalog, attempts.AttemptFilter(), clock).attempts
    left = {one.table: one.figures["left_because"] for one in ledger if one.state.value == "left"}
    assert left == dict.fromkeys(("d.b", "d.c"), "the time of the job ended first")
    found = survey.run(survey.Job(), catalog, clock=clock)
    assert {one.table: one.late.nights for one in found.tables} == {"d.a": 0, "d.b": 1, "d.c": 1}
    put(catalog.load_table("d.a"), *([{"k": k, "v": "new"}] for k in range(9)))  # now the least healthy
    survey.run(survey.Job(), catalog, clock=clock)
    begun.clear()
    next_night = replace(night, until_ms=clock.now_ms() + 3_000_000)
    report = run(next_night, catalog, clock=clock, callbacks=Callbacks(on_done=done))
    assert begun == ["d.b", "d.c"]
    assert [one.table for one in report.tables] == ["d.a", "d.b", "d.c"]


def test_a_dry_run_leaves_nothing_in_the_ledger(catalog: FilesystemCatalog) -> None:
    fill(catalog, "d.a")
    over = replace(WANTED, until_ms=0, dry_run=True)
    assert run(over, catalog, clock=catalog.clock).tables[0].skipped
    assert attempts.attempts_of(catalog, attempts.AttemptFilter(), catalog.clock).attempts == ()


def test_an_interruption_leaves_whole_tables_and_no_files(catalog: FilesystemCatalog) -> None:
    tables = fill(catalog, *(f"d.t{n}" for n in range(6)))
    before = [rows_of(table) for table in tables]

    def done(report: compact.Report) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(
            replace(WANTED, max_concurrent_tables=2),
            catalog,
            clock=catalog.clock,
            callbacks=Callbacks(on_done=done),
        )
    assert [rows_of(table) for table in tables] == before
    assert {len(live_files(table)) for table in tables} == {1, 3}
    for table in tables:
        named = {file.file_name for i in table._stores.snapshots.list_ids() for file in _files(table, i)}
        assert {path.rpartition("/")[2] for path in paths_of(table)} == named
    report = run(WANTED, catalog, clock=catalog.clock)
    assert report.failed == report.skipped == ()
    assert {len(live_files(table)) for table in tables} == {1}


@pytest.mark.slow
def test_a_killed_run_is_completed_once_by_the_next(
    tmp_path: Path, oracle: Oracle, request: pytest.FixtureRequest
) -> None:
    """Killed after changes all over it: several tables write, prove and commit at once then."""
    lake, image = tmp_path / "lake", tmp_path / "image"
    catalog = load_catalog(str(lake), create_warehouse=True, **{"local.fsync": "false"})
    tables = fill(catalog, *(f"d.t{n}" for n in range(6)))
    before = [rows_of(table) for table in tables]
    shutil.copytree(lake, image)
    counted = ChangingFileIO()
    with counted.within():
        run(WANTED, replace(catalog, file_io=counted))
    changes, ends = len(counted.log), set[tuple[int, ...]]()
    in_the_middle = KillPoint(name="publish", part="/snapshot/snapshot-4", after=True, nth=2)
    every = request.config.getoption("--every-kill")
    points = range(1, changes) if every else (changes // 3, in_the_middle, changes * 7 // 8)
    for number, point in enumerate(points):
        shutil.rmtree(lake)
        shutil.copytree(image, lake)
        run_and_die(point, compact_all, str(lake))
        assert [rows_of(table) for table in tables] == before
        ends.add(tuple(len(table._stores.snapshots.list_ids()) for table in tables))
        report = compact_all(str(lake))
        assert report.failed == report.skipped == ()
        assert [len(live_files(table)) for table in tables] == [1] * 6
        assert [table._stores.snapshots.list_ids() for table in tables] == [(1, 2, 3, 4)] * 6
        assert [rows_of(table) for table in tables] == before
        for table in tables:
            assert catalog.file_io.read(table._stores.paths.latest_hint) == b"4", point
            assert fsck(table._stores.file_io, table._stores.paths, now_ms=0).damage == ()
        chosen = number % 6
        assert len(oracle.read(lake, f"d.t{chosen}")) == len(before[chosen])
        found = findings(oracle.fsck(lake, f"d.t{chosen}"))
        assert {one for one in found if not one.startswith(ORPHANS)} == set()
    assert any(3 in end and 4 in end for end in ends), "some tables were done, others were not"


def test_a_lease_is_kept_alive_until_its_work_ends(catalog: FilesystemCatalog) -> None:
    clock = catalog.clock
    assert isinstance(clock, FakeClock)
    renewed = threading.Event()

    def hold(owner: str) -> Any:
        return leased(catalog.file_io, catalog.warehouse, "d.t", owner, clock, LeaseTimes(60))

    with Heartbeat() as heartbeat, hold("first") as lease:
        old = lease.renew
        lease.renew = lambda: (old(), renewed.set())[0]  # type: ignore[method-assign]
        with heartbeat.keeping(lease):
            clock.sleep(0.05)
            renewed.clear()
            assert renewed.wait(10)
            clock.sleep(0.03)
            with pytest.raises(BusyError, match="first"), hold("second"):
                raise AssertionError("two at once")
    with hold("second"):
        assert lease.path


def _files(table: Table, snapshot_id: int) -> Any:
    return table._scanner.live_entries(table._stores.snapshots.load(snapshot_id)).files()


def test_a_directory_that_lost_its_schema_fails_and_the_others_are_done(catalog: FilesystemCatalog) -> None:
    fill(catalog, "d.a", "d.lost", "d.z", "other.lost")
    for name in ("d.db/lost", "other.db/lost"):
        catalog.file_io.delete(f"{catalog.warehouse}/{name}/schema/schema-0")
    report = run(replace(WANTED, including_databases="d"), catalog, clock=catalog.clock)
    assert report.counts() == {"tables": 3, "changed": 2, "failed": 1, "skipped": 0, "nothing_to_do": 0}
    (failed,) = report.failed
    assert (failed.table, failed.error_class) == ("d.lost", "NotFoundError")
    assert "has snapshots, but no schema: bring the directory `schema`" in str(failed.error)
    assert not run(replace(WANTED, including_databases="d", excluding_tables=".*lost"), catalog).failed
    assert list(PatternNames(WANTED, catalog)()) == ["d.a", "d.z"], "a follower would fail in each round"
