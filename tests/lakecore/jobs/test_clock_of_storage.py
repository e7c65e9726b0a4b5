"""A machine whose clock is ahead of that of storage takes young files for old ones, so nothing is removed by age."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.clock import SystemClock
from lakecore.errors import InvalidInputError
from lakecore.fs.file_io import FileStatus
from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs import (
    compact,
    expire_changelogs,
    expire_snapshots,
    partitions,
    purge_files,
    remove_orphan_files,
)
from lakecore.jobs.versions import consumers, tags
from lakecore.table import Table
from tests.support.fake_clock import FakeClock
from tests.support.lake import key_table, memory_catalog, paths_of, put, rows_of

MINUTE = 60_000
DAYS = 3 * 24 * 60 * MINUTE
JOBS: dict[str, tuple[Callable[..., Any], Any]] = {
    "orphans": (remove_orphan_files.run, remove_orphan_files.Job(table="d.k", allow_empty=True)),
    "snapshots": (expire_snapshots.run, expire_snapshots.Job(table="d.k", retain_max=9, retain_min=1)),
    "changelogs": (expire_changelogs.run, expire_changelogs.Job(table="d.k")),
    "partitions": (
        partitions.run,
        partitions.ExpirePartitions(
            table="d.k", expiration_ms=MINUTE, timestamp_formatter="yyyy-MM-dd", timestamp_pattern="$p"
        ),
    ),
    "files": (purge_files.run, purge_files.Job(table="d.k")),
    "consumers": (consumers.run, consumers.ExpireConsumers(table="d.k", expiration_ms=MINUTE)),
    "tags": (tags.run, tags.ExpireTags(table="d.k")),
}


@pytest.fixture(autouse=True)
def limit_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecore.jobs.runner.chore._CLOCK_AHEAD_MS", 10 * MINUTE)


@pytest.fixture
def lake() -> FilesystemCatalog:
    return memory_catalog("clock-of-storage")


@pytest.fixture
def table(lake: FilesystemCatalog) -> Table:
    """Two commits, and a file that another writer has just made and not committed yet."""
    table = key_table(lake, ("p STRING", "k INT"), keys=("p", "k"), partitions=("p",))
    put(table, [{"p": "2026-11-28", "k": 1}], [{"p": "2026-11-28", "k": 2}])
    lake.file_io.write_new(f"{table.path}/p=2026-11-28/bucket-0/data-new.parquet", b"PAR1")
    return table


@pytest.mark.parametrize("name", JOBS)
def test_what_removes_by_age_is_refused(name: str, lake: FilesystemCatalog, table: Table) -> None:
    run, job = JOBS[name]
    before = paths_of(table, "")
    with pytest.raises(
        InvalidInputError, match=r"is 43\d\d minutes ahead of that of storage.*removes nothing"
    ):
        run(job, lake, clock=FakeClock(SystemClock().now_ms() + DAYS))
    assert paths_of(table, "") == before


@pytest.mark.parametrize("minutes", [-10_000, 0, 9])
def test_clocks_that_differ_little_or_make_files_seem_younger_are_right(
    minutes: int, lake: FilesystemCatalog, table: Table
) -> None:
    before = paths_of(table, "")
    clock = FakeClock(SystemClock().now_ms() + minutes * MINUTE)
    report = remove_orphan_files.run(JOBS["orphans"][1], lake, clock=clock)
    assert (report.files, report.error) == (0, None)
    assert paths_of(table, "") == before, "it is not a day old"


def test_storage_that_tells_no_time_is_not_taken_for_one_that_is_behind(
    lake: FilesystemCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = MemoryFileIO.stat

    def without_time(self: MemoryFileIO, path: str) -> FileStatus | None:
        status = stat(self, path)
        return status and replace(status, mtime_ms=0)

    monkeypatch.setattr(MemoryFileIO, "stat", without_time)
    report = remove_orphan_files.run(JOBS["orphans"][1], lake, clock=SystemClock())
    assert report.error is None


def test_other_chores_run_and_leave_the_quarantine_alone(lake: FilesystemCatalog, table: Table) -> None:
    soon = FakeClock(SystemClock().now_ms() + MINUTE)
    job = remove_orphan_files.Job(table="d.k", older_than_ms=soon.now_ms() - 1, allow_empty=True)
    assert remove_orphan_files.run(job, lake, clock=soon).quarantined
    quarantine = paths_of_quarantine(lake)
    assert quarantine
    tags.run(tags.CreateTag(table="d.k", tag="t"), lake)
    ahead = FakeClock(SystemClock().now_ms() + 100 * DAYS)
    tags.run(tags.DeleteTag(table="d.k", tags=("t",)), lake, clock=ahead)
    assert paths_of_quarantine(lake) >= quarantine
    strategy = compact.Strategy.FULL
    assert compact.run(compact.Job(table="d.k", strategy=strategy), lake, clock=ahead).snapshots
    assert rows_of(table) == [("2026-11-28", 1), ("2026-11-28", 2)]


def paths_of_quarantine(lake: FilesystemCatalog) -> set[str]:
    folders, paths = [f"{lake.warehouse}/.lakecore"], set()
    while folders:
        for status in lake.file_io.list(folders.pop()):
            if status.is_dir:
                folders.append(status.path)
            elif "data-new" in status.path:
                paths.add(status.path)
    return paths
