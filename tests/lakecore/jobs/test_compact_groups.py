"""A table of more files than one plan may have is compacted group after group: the figures, rows and errors are those of
a table that is planned as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.clock import SystemClock
from lakecore.errors import LakeError, UnavailableError
from lakecore.executor import SerialExecutor
from lakecore.jobs import compact
from lakecore.jobs.compact import Job, Report, Strategy
from lakecore.jobs.compact.task import CompactTask
from lakecore.maintain.lease.heartbeat import Heartbeat
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.manifest.shape import Shape
from lakecore.scan.scanner import Scanner
from lakecore.store.manifests import ManifestStore
from lakecore.table import Table
from tests.support.lake import append_table, key_table, live_files, memory_catalog, put, rows_of

FULL = Strategy.FULL
DAYS = "abcd"


@pytest.fixture
def catalog() -> FilesystemCatalog:
    return memory_catalog("groups")


def plan_sizes(monkeypatch: pytest.MonkeyPatch, group_files: int) -> list[int]:
    """Groups have at most so many files. Returns the number of live files of each look at the table."""
    sizes: list[int] = []
    plain = Scanner.live_entries

    def live_entries(*args: Any, **rest: Any) -> ManifestEntries:
        entries = plain(*args, **rest)
        sizes.append(len(entries))
        return entries

    monkeypatch.setattr(Scanner, "live_entries", live_entries)
    monkeypatch.setattr(CompactTask, "group_files", group_files)
    return sizes


def spread(catalog: FilesystemCatalog, **options: str) -> Table:
    """Four partitions of two buckets, with three files each; one partition is in shape already."""
    columns, keys = ("p STRING", "k INT", "v STRING"), ("p", "k")
    table = key_table(catalog, columns, keys, ("p",), **{"bucket": "2", **options})
    for version in "xyz":
        put(table, [{"p": p, "k": k, "v": f"{version}{k}"} for p in DAYS for k in range(8)])
    compact.run(Job(table="d.k", strategy=FULL, where="p=b", commit_user="first"), catalog)
    return table


def run(catalog: FilesystemCatalog, clock: Any = None, executor: Any = None, **fields: Any) -> Report:
    defaults: dict[str, Any] = {"table": "d.k", "strategy": FULL, "commit_user": "test", "proof_seed": "s"}
    job = Job(**defaults | fields)
    with Heartbeat() as heartbeat:
        task = CompactTask(job, executor or SerialExecutor(), clock or catalog.clock, None, heartbeat)
        return task.run(catalog).report


def figures(report: Report) -> dict[str, Any]:
    """The figures that do not depend on when the run was, and in how many commits."""
    raw = report.to_json()
    ignored = ("seconds", "snapshot", "snapshots", "bytes_out", "forecast")
    rest = {name: value for name, value in raw.items() if name not in ignored}
    rest["planned"] = sorted(re.sub(r"data-[-0-9a-f]+\.parquet", "data", text) for text in raw["planned"])
    for shape in ("before", "after"):
        rest[shape] = {
            name: value for name, value in raw[shape].items() if name not in ("bytes", "snapshots")
        }
    return rest


@pytest.mark.parametrize("make", [spread, append_table], ids=["keyed", "append"])
def test_groups_have_the_figures_of_the_whole(
    make: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = []
    for most in (1 << 20, 6):
        lake = memory_catalog(f"groups-{most}")
        table = make(lake) if make is spread else append_table(lake, partitions=("p",))
        for number in range(0 if make is spread else 6):
            put(table, [{"v": number, "p": p} for p in DAYS])
        rows, name = rows_of(table), table.name
        with monkeypatch.context() as patch:
            sizes = plan_sizes(patch, most)
            planned = run(lake, table=name, dry_run=True)
            if most == 6:
                assert sizes == ([6, 1, 1, 6, 6] if make is spread else [6, 6, 6, 6])
            done = run(lake, table=name)
            again = run(lake, table=name, commit_user="later")
            assert max(sizes) <= most
        assert rows_of(table) == rows
        assert done.before == replace(planned.before, snapshots=None)
        assert (again.nothing_to_do, again.before, again.snapshots) == (True, done.after, ())
        stores = table._stores.snapshots
        commits = [stores.load(number).commit_identifier for number in done.snapshots]
        assert commits == list(range(1, len(commits) + 1))
        assert planned.after.snapshots == (planned.before.snapshots or 0) + len(commits)
        assert planned.after.files >= done.after.files > 0
        reports.append((figures(planned), figures(done), len(commits)))
    (whole_plan, whole, one), (group_plan, in_groups, several) = reports
    assert (one, several) == (1, 3 if make is spread else 4)
    assert in_groups == whole
    assert group_plan == whole_plan


def test_groups_and_the_first_plan_list_manifests_once(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later plans, of snapshots that came since, list theirs: what others wrote meanwhile is not overlooked."""
    table = spread(catalog)
    plan_sizes(monkeypatch, 6)
    read: list[str] = []
    plain = ManifestStore.read_list

    def read_list(self: ManifestStore, name: str) -> tuple[ManifestFile, ...]:
        read.append(name)
        return plain(self, name)

    monkeypatch.setattr(ManifestStore, "read_list", read_list)
    latest = table._stores.snapshots.latest()
    assert latest is not None
    assert len(run(catalog, dry_run=True).planned) == 6
    assert sorted(read) == sorted([latest.base_manifest_list, latest.delta_manifest_list])
    rows = rows_of(table)
    written: list[int] = []

    class Writes(SerialExecutor):
        def run(self, function: Any, tasks: Any) -> Iterator[Any]:
            for task in tasks:
                if not written:
                    written.append(len(read))
                    put(table, [{"p": "d", "k": k, "v": "new"} for k in (0, 100)])
                yield function(task)

    read.clear()
    run(catalog, executor=Writes(), commit_user="second")
    assert read[: written[0]].count(latest.base_manifest_list) == 1
    rest = [row for row in rows if row[:2] != ("d", 0)]
    assert sorted(rows_of(table)) == sorted([*rest, ("d", 0, "new"), ("d", 100, "new")])


def test_the_end_of_the_time_leaves_groups(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five groups two are done, and two have nothing to do; the last one counts as one pick."""
    table = spread(catalog)
    plan_sizes(monkeypatch, 6)
    clock = catalog.clock
    start = clock.now_ms()

    class Ends(SerialExecutor):
        def run(self, function: Any, tasks: Any) -> Iterator[Any]:
            for task in tasks:
                if "bucket-1" in task.task.name:  # the last one of its group
                    clock.sleep(1)
                yield function(task)

    report = run(catalog, executor=Ends(), until_ms=start + 1_500)
    assert (report.picks_done, report.picks_left, report.nothing_to_do, report.error) == (4, 1, False, None)
    assert (report.before.files, report.after.files) == (14, 6)
    again = run(catalog)
    assert (again.picks_done, again.picks_left) == (2, 0)
    assert len(live_files(table)) == 8


def test_failed_groups_do_not_hold_back_the_others(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = spread(catalog)
    rows = rows_of(table)

    class Fails(SerialExecutor):
        def run(self, function: Any, tasks: Any) -> Iterator[Any]:
            for task, result in ((task, function(task)) for task in tasks):
                bad = any(name in task.task.name for name in ("p=a/bucket-1", "p=c/bucket-0"))
                yield UnavailableError("storage", "is away") if bad else result

    plan_sizes(monkeypatch, 6)
    report = run(catalog, executor=Fails())
    assert report.error_class == "UnavailableError"
    assert (report.picks_done, report.picks_left) == (4, 2)
    assert (report.before.files, report.after.files) == (20, 12)
    assert rows_of(table) == rows
    again = run(catalog)
    assert (again.error, again.picks_done, again.after.files) == (None, 2, 8)
    assert again.snapshots[: len(report.snapshots)] == report.snapshots


def test_what_is_written_meanwhile_is_planned_with_its_group(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later group is planned from the newest snapshot; a new partition is left to the next run."""
    table = spread(catalog)

    class Writes(SerialExecutor):
        written = False

        def run(self, function: Any, tasks: Any) -> Iterator[Any]:
            if not self.written:
                self.written = True
                put(table, [{"p": "d", "k": 1, "v": "new"}, {"p": "e", "k": 1, "v": "other"}])
            yield from super().run(function, tasks)

    plan_sizes(monkeypatch, 6)
    run(catalog, executor=Writes())
    values = {(p, k): v for p, k, v in rows_of(table)}
    assert (values["d", 1], values["e", 1]) == ("new", "other")
    latest = table._stores.snapshots.latest()
    assert latest is not None
    levels = {(entry.partition, entry.file.level) for entry in table._scanner.live_entries(latest)}
    assert sorted(level for _, level in levels) == [0, 5, 5, 5, 5]  # only the new partition is on level 0


@pytest.mark.parametrize("options", [{"row_tracking__enabled": "true"}, {"clustering__incremental": "true"}])
def test_tables_that_are_planned_as_a_whole(
    options: dict[str, str], catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"clustering__columns": "v"} if "clustering__incremental" in options else {}
    table = append_table(catalog, partitions=("p",), **options, **more)
    for number in range(6):
        put(table, [{"v": number, "p": p} for p in DAYS])
    sizes = plan_sizes(monkeypatch, 6)
    report = run(catalog, table="d.a")
    assert max(sizes) == 24
    assert len(report.snapshots) == 1


def test_the_engine_is_chosen_by_the_first_group_with_work(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan of that group is not made again, and groups before it, which are in shape, stay as they are."""
    from lakecore.jobs.engines.engine_choice import Engines

    table = spread(catalog)
    compact.run(Job(table="d.k", strategy=FULL, where="p=a", commit_user="second"), catalog)
    sizes = plan_sizes(monkeypatch, 6)

    class Spark(SerialExecutor):
        name, master, local_cores = "spark", "spark://host:7077", None

        def begin(self, told: Any) -> None:
            raise AssertionError("a session was started for nothing")

    executor = Engines(Spark(), lambda: None).for_table()  # type: ignore[arg-type] # no Spark is needed
    report = run(catalog, executor=executor)
    assert (report.picks_done, report.engine, report.before.files) == (4, "local", 16)
    assert report.engine_reason.startswith("the forecast is")
    assert sizes[:6] == [1, 1, 1, 1, 6, 6]  # each group was planned once
    assert len(live_files(table)) == 8


def test_an_error_before_the_first_group_keeps_what_was_seen(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    spread(catalog)
    plan_sizes(monkeypatch, 6)

    def refuse(*_: Any, **__: Any) -> None:
        raise UnavailableError("lease", "is taken")

    monkeypatch.setattr("lakecore.maintain.lease.lease.leased", refuse)
    report = run(catalog, lease_ms=1_000)
    assert report.error_class == "UnavailableError"
    assert report.before == report.after != Shape()


def test_idle_partitions_and_due_full_compactions_are_found_by_groups(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = spread(catalog, full_compaction__delta_commits="2")
    sizes = plan_sizes(monkeypatch, 2)
    report = run(catalog, strategy=Strategy.UNIVERSAL, partition_idle_ms=0, clock=SystemClock())
    assert (report.strategy, report.picks_done) == (Strategy.UNIVERSAL, 6)
    assert set(report.after.levels) == {5}
    assert max(sizes) <= 3  # a bucket is never divided
    assert len(live_files(table)) == 8


def test_an_interrupted_run_goes_on_with_the_next_group(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = spread(catalog)
    plan_sizes(monkeypatch, 6)

    class Killed(SerialExecutor):
        runs = 0

        def run(self, function: Any, tasks: Any) -> Iterator[Any]:
            self.runs += 1
            if self.runs == 2:
                raise KeyboardInterrupt
            yield from super().run(function, tasks)

    with pytest.raises((KeyboardInterrupt, LakeError)):
        run(catalog, executor=Killed(), commit_identifier=10)
    done = run(catalog, commit_identifier=10)
    stores = table._stores.snapshots
    commits = [stores.load(number).commit_identifier for number in done.snapshots]
    assert (commits, done.picks_done, done.after.files) == ([10, 11, 12], 4, 8)
