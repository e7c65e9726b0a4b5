"""Rewriting file indexes: only what is missing is made, nothing else changes, and the report says how far they reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import CommitConflictError, InvalidOptionError, UnsupportedError
from lakecore.executor import SerialExecutor
from lakecore.index.container import decode_head
from lakecore.jobs import compact, rewrite_file_index
from lakecore.jobs.rewrite_file_index import Job, Report
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.snapshot import CommitKind
from lakecore.table import Table
from tests.support.fake_clock import FakeClock
from tests.support.lake import append_table, key_table, live_files, memory_catalog, paths_of, put, rows_of

BLOOM = {"file-index.bloom-filter.columns": "v", "file-index.bloom-filter.v.items": "50"}
BITMAP = {"file-index.bitmap.columns": "v,p"}
SEPARATE = {"file-index.in-manifest-threshold": "1 b"}


@pytest.fixture
def catalog() -> FilesystemCatalog:
    return memory_catalog("rewrite-index")


def run(catalog: FilesystemCatalog, table: Table, options: Mapping[str, str], **job: Any) -> Report:
    wanted = Job(table=table.name, options=dict(options), **job)
    assert Job.from_json(wanted.to_json()) == wanted
    return rewrite_file_index.run(wanted, catalog, clock=catalog.clock)


def filled(catalog: FilesystemCatalog) -> Table:
    table = append_table(catalog, partitions=("p",))
    put(table, *([{"v": 10 * n + i, "p": p} for i in range(5) for p in "ab"] for n in range(3)))
    return table


def held(table: Table, file: DataFile, directory: str = "p={}/bucket-0") -> set[tuple[str, str]]:
    data = file.embedded_index
    if data is None and file.extra_files:
        (path,) = [path for path in paths_of(table, "/bucket-") if path.endswith(file.extra_files[0])]
        data = table._stores.file_io.read(path)
    return (
        set()
        if data is None
        else {(n, k) for n, kinds in decode_head(data, len(data), "p").items() for k in kinds}
    )


def plain(file: DataFile) -> DataFile:
    return replace(file, extra_files=(), embedded_index=None)


@pytest.mark.parametrize("placed", [{}, SEPARATE], ids=["embedded", "separate"])
def test_what_is_missing_is_made_and_what_is_stale_goes(
    catalog: FilesystemCatalog, placed: Mapping[str, str]
) -> None:
    table = filled(catalog)
    rows, before = rows_of(table), live_files(table)
    steps = [
        (BLOOM, {("v", "bloom-filter")}, 30),
        ({**BLOOM, **BITMAP}, {("v", "bloom-filter"), ("v", "bitmap"), ("p", "bitmap")}, 30),
        (BITMAP, {("v", "bitmap"), ("p", "bitmap")}, 0),
        ({}, set(), 0),
    ]
    for options, wanted, read in steps:
        look = run(catalog, table, {**options, **placed}, dry_run=True)
        assert (look.planned, look.rows_planned, look.snapshot) == (6, read, None)
        done = run(catalog, table, {**options, **placed})
        assert (done.files, done.rows, done.planned, len(done.snapshots)) == (6, read, 6, 1)
        latest = table._stores.snapshots.latest()
        assert latest is not None
        assert latest.commit_kind is CommitKind.COMPACT
        assert latest.delta_record_count == 0
        files = live_files(table)
        assert {f.file_name: plain(f) for f in files} == {f.file_name: f for f in before}
        assert all(held(table, file) == wanted for file in files)
        assert {c.index + c.type for c in done.coverage} == {name + kind for name, kind in wanted}
        assert all(
            (c.files, c.files_lacking, c.rows, c.in_options) == (6, 0, 30, True) for c in done.coverage
        )
        assert done.coverage_before == look.coverage
        again = run(catalog, table, {**options, **placed})
        assert again.nothing_to_do
        assert (again.snapshot, again.coverage) == (None, done.coverage)
        assert rows_of(table) == rows
    back = run(catalog, table, {**BLOOM, **placed})  # a description never comes back
    assert (back.files, rows_of(table)) == (6, rows)


def test_only_the_partitions_asked_for(catalog: FilesystemCatalog) -> None:
    table = filled(catalog)
    assert run(catalog, table, BITMAP, where="p=a").files == 3
    found = run(catalog, table, BITMAP, dry_run=True)
    assert found.planned == 3
    assert {(c.files, c.files_lacking, c.rows_lacking) for c in found.coverage} == {(3, 3, 15)}


def test_a_file_with_retracting_rows_is_indexed_row_by_row(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    put(
        table,
        [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}],
        [{"k": 1, "v": "a", "_kind": "-D"}, {"k": 3, "v": "c"}],
    )
    done = run(catalog, table, {"file-index.bitmap.columns": "v"})
    assert (done.files, done.rows) == (2, 4)
    assert rows_of(table) == [(2, "b"), (3, "c")]
    job = compact.Job(table=table.name, strategy=compact.Strategy.FULL)
    assert compact.run(job, catalog, clock=catalog.clock).files_out == 1


def test_a_lost_or_damaged_index_file_is_made_again(catalog: FilesystemCatalog) -> None:
    table = filled(catalog)
    options = {**BITMAP, **SEPARATE}
    run(catalog, table, options)
    lost, damaged = [path for path in paths_of(table, "/bucket-") if path.endswith(".index")][:2]
    table._stores.file_io.delete(lost)
    table._stores.file_io.overwrite(damaged, b"not an index")
    done = run(catalog, table, options)
    assert done.files == 2
    assert all(held(table, file) == {("v", "bitmap"), ("p", "bitmap")} for file in live_files(table))


class Racing(SerialExecutor):
    """Something happens between the units and the commit."""

    def __init__(self, event: Any) -> None:
        super().__init__()
        self.event = event

    def run(self, function: Any, tasks: Any) -> Any:
        yield from list(super().run(function, tasks))
        event, self.event = self.event, lambda: None
        event()


def test_files_that_others_replaced_are_planned_again(catalog: FilesystemCatalog) -> None:
    table = filled(catalog)
    rows = rows_of(table)

    def compacted() -> None:
        job = compact.Job(
            table=table.name,
            strategy=compact.Strategy.FULL,
            where="p=a",
            options={"compaction.min.file-num": "2"},
        )
        assert compact.run(job, catalog, clock=catalog.clock).files_in == 3

    job = Job(table=table.name, options={**BITMAP, **SEPARATE}, commit_user="me")
    done = rewrite_file_index.run(job, catalog, Racing(compacted), catalog.clock)
    assert (done.files, len(done.dropped), len(done.snapshots)) == (3, 3, 1)
    assert rows_of(table) == rows
    index_files = [path for path in paths_of(table, "/bucket-") if path.endswith(".index")]
    assert len(index_files) == 3
    again = rewrite_file_index.run(replace(job, commit_user="you"), catalog, clock=catalog.clock)
    assert again.files == 1

    def indexed() -> None:
        run(catalog, table, {**BLOOM, **BITMAP}, where="p=b")

    job = Job(
        table=table.name, options={**BLOOM, **BITMAP, **SEPARATE}, commit_user="me", commit_identifier=2000
    )
    done = rewrite_file_index.run(job, catalog, Racing(indexed), catalog.clock)
    assert (done.planned, done.files, len(done.dropped)) == (4, 1, 3)
    assert run(catalog, table, {**BLOOM, **BITMAP}).nothing_to_do


def test_a_stopped_run_commits_what_is_done_and_says_what_is_left(catalog: FilesystemCatalog) -> None:
    table = filled(catalog)
    executor = SerialExecutor()

    class Stopped(SerialExecutor):
        def run(self, function: Any, tasks: Any) -> Any:
            for result in executor.run(function, tasks):
                executor.cancel()
                yield result

    job = Job(table=table.name, options=BITMAP, commit_user="me")
    done = rewrite_file_index.run(job, catalog, Stopped(), catalog.clock)
    assert (done.planned, done.files, done.files_left, len(done.snapshots)) == (6, 3, 3, 1)
    again = rewrite_file_index.run(job, catalog, clock=catalog.clock)
    assert (again.files, again.files_left, len(again.snapshots)) == (3, 0, 2)


def test_two_runs_of_one_name_do_not_mix(catalog: FilesystemCatalog) -> None:
    table = filled(catalog)
    job = Job(table=table.name, options=BITMAP, commit_user="me")

    def other() -> None:
        rewrite_file_index.run(job, catalog, clock=catalog.clock)

    with pytest.raises(CommitConflictError, match="another run with the same commit user and identifier"):
        rewrite_file_index.run(replace(job, options=BLOOM | SEPARATE), catalog, Racing(other), catalog.clock)
    assert all(held(table, file) == {("v", "bitmap"), ("p", "bitmap")} for file in live_files(table))
    assert not [path for path in paths_of(table, "/bucket-") if path.endswith(".index")]


def test_what_cannot_be_is_refused_before_anything_is_read(catalog: FilesystemCatalog) -> None:
    table = filled(catalog)
    before = paths_of(table, "")
    for options, error in (
        ({"file-index.bsi.columns": "p"}, UnsupportedError),
        ({"file-index.bitmap.columns": "nowhere"}, InvalidOptionError),
    ):
        with pytest.raises(error):
            run(catalog, table, options)
        (report,) = rewrite_file_index.run_many([Job(table=table.name, options=options)], catalog)
        assert report.error is not None
    assert paths_of(table, "") == before


def test_a_compaction_of_the_same_name_never_takes_indexes_for_debris(catalog: FilesystemCatalog) -> None:
    """It removes what a killed attempt of its own left behind, by the names of the files."""
    table = filled(catalog)
    job = compact.Job(
        table=table.name,
        strategy=compact.Strategy.FULL,
        commit_user="me",
        options={"compaction.min.file-num": "2"},
    )
    assert compact.run(job, catalog, clock=catalog.clock).files_out == 2
    assert run(catalog, table, {**BITMAP, **SEPARATE}).files == 2
    kept = {path for path in paths_of(table, "/bucket-") if path.endswith(".index")}
    put(table, [{"v": 1, "p": "a"}], [{"v": 2, "p": "a"}])
    assert compact.run(job, catalog, clock=catalog.clock).files_out == 1
    assert kept <= set(paths_of(table, "/bucket-"))


def test_files_of_some_columns_are_refused(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog, row_tracking__enabled="true", data_evolution__enabled="true")
    put(table, [{"v": 1, "p": "a"}])
    with pytest.raises(UnsupportedError, match=r"d\.a: option data-evolution\.enabled=true"):
        run(catalog, table, BLOOM)


class Ticking(SerialExecutor):
    """Ten seconds pass in every unit."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def run(self, function: Any, tasks: Any) -> Any:
        for result in super().run(function, tasks):
            self._clock.sleep(10)
            yield result


@pytest.mark.parametrize(("seconds", "files"), [(5, 3), (15, 6), (0, 0)])
def test_no_unit_is_begun_after_the_end_of_the_window(
    catalog: FilesystemCatalog, seconds: int, files: int
) -> None:
    """Each partition is a unit of three files. What is built is committed, and the report counts the rest."""
    table, clock = filled(catalog), catalog.clock
    job = Job(table=table.name, options=BLOOM, commit_user="u", until_ms=clock.now_ms() + seconds * 1000)
    before = paths_of(table, "/bucket-")
    report = rewrite_file_index.run(job, catalog, Ticking(clock), clock)
    assert (report.files, report.files_left, report.dropped) == (files, 6 - files, ())
    assert len([file for file in live_files(table) if file.embedded_index]) == files
    assert paths_of(table, "/bucket-") == before
    again = rewrite_file_index.run(replace(job, until_ms=None), catalog, clock=clock)
    assert again.files == 6 - files
    assert all(file.embedded_index for file in live_files(table))
