"""The expiry of partitions: in groups of buckets, beside writers, and of files whose age nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partialmethod
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.jobs.partitions import ExpirePartitions, run
from lakecore.jobs.runner.chore import Report
from lakecore.maintain.partitions.apply import PartitionAges
from lakecore.maintain.partitions.late_writes import Expiry
from lakecore.maintain.partitions.plan import ExpireStrategy
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.snapshot import Snapshot
from lakecore.scan.scanner import Scanner
from lakecore.table import Table
from tests.support.lake import append_table, key_table, live_files, memory_catalog, put

DAY = 86_400_000
DAYS = [f"2024-03-0{number}" for number in range(1, 8)]


def daily(name: str, *, keyed: bool = True) -> tuple[FilesystemCatalog, Table]:
    """A table with a partition a day, which the writer filled on that day, and two buckets where it has keys."""
    catalog = memory_catalog(name)
    catalog.clock.time_ms = int(datetime(2024, 3, 1, tzinfo=UTC).timestamp() * 1000)
    make: Any = key_table if keyed else append_table
    keys: dict[str, Any] = {"keys": ("k", "dt"), "bucket": "2"} if keyed else {}
    table = make(catalog, columns=("k INT", "dt STRING"), partitions=("dt",), **keys)
    for number, day in enumerate(DAYS):
        for _ in range(2):
            put(table, [{"k": 10 * number + i, "dt": day} for i in range(4)])
        catalog.clock.time_ms += DAY
    return catalog, table


def expire(
    catalog: FilesystemCatalog, table: Table, strategy: str = "update-time", *, dry_run: bool = False
) -> Report:
    job = ExpirePartitions(
        table=table.name, expiration_ms=7 * DAY // 2, expire_strategy=strategy, dry_run=dry_run
    )
    return run(job, catalog, clock=catalog.clock)


def days_of(table: Table) -> list[str]:
    return sorted({row["dt"] for row in table.scan().to_arrow().to_pylist()})


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("most", [1, 5])
def test_groups_of_buckets_expire_as_the_whole_table(
    keyed: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_catalog, whole = daily("whole", keyed=keyed)
    catalog, table = daily("groups", keyed=keyed)
    dry_whole = expire(whole_catalog, whole, dry_run=True)
    expected = expire(whole_catalog, whole)
    monkeypatch.setattr(Scanner, "groups", partialmethod(Scanner.groups, most=most, undivided=most))
    dry = expire(catalog, table, dry_run=True)
    assert dry.before is not None
    assert dry.before.files == len(live_files(table))
    assert (dry.names, dry.before, dry.after) == (dry_whole.names, dry_whole.before, dry_whole.after)
    report = expire(catalog, table)
    assert report.names == expected.names
    assert len(report.names) == 4
    assert days_of(table) == days_of(whole) == DAYS[4:]


@pytest.mark.parametrize(("strategy", "is_kept"), [("update-time", True), ("values-time", False)])
def test_rows_that_come_during_the_expiry(
    strategy: str, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition that gets rows between the look at the table and the commit is not old by update time."""
    catalog, table = daily("late")
    late_rows = [{"k": 1, "dt": DAYS[1]}]
    check = Expiry.check

    def check_late(
        self: Expiry, planned_at: Snapshot, base: Snapshot | None, partitions: Sequence[Any]
    ) -> None:
        if late_rows:
            put(catalog.load_table(table.name), [late_rows.pop()])
        check(self, planned_at, base, partitions)

    monkeypatch.setattr(Expiry, "check", check_late)
    report = expire(catalog, table, strategy)
    assert not late_rows
    kept = DAYS[1:2] if is_kept else []
    assert days_of(table) == [*kept, *DAYS[4:]]
    assert report.names == tuple(f"dt={day}" for day in DAYS[:4] if day not in kept)
    assert any("written while they were to expire: dt=2024-03-02" in note for note in report.notes) == is_kept
    assert expire(catalog, table, strategy).nothing_to_do


def test_a_file_of_unknown_age_keeps_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Early releases recorded no time of creation: that is no reason to take a file for old."""
    catalog, table = daily("untimed")
    read = Scanner.live_entries

    def without_a_time(self: Scanner, *args: Any, **kwargs: Any) -> ManifestEntries:
        rows = list(read(self, *args, **kwargs).rows())
        rows[0] = replace(rows[0], file=replace(rows[0].file, creation_time=None))
        return ManifestEntries.from_rows(rows)

    monkeypatch.setattr(Scanner, "live_entries", without_a_time)
    report = expire(catalog, table)
    assert report.names == tuple(f"dt={day}" for day in DAYS[1:4])
    assert any("time of creation is unknown and never expire: dt=2024-03-01" in one for one in report.notes)


def test_a_partition_of_several_groups_has_the_time_of_its_newest_file() -> None:
    catalog, table = daily("ages")
    latest = table._stores.snapshots.latest()
    assert latest is not None
    entries = table._scanner.live_entries(latest)
    ages = PartitionAges(Target(table.name, catalog.warehouse, table._stores), ExpireStrategy.UPDATE_TIME)
    for lane in reversed(range(len(entries))):
        ages.add(entries.select(entries.name_hash == entries.name_hash[lane]))
    aged = {one.texts[0]: one for one in ages.partitions(0)}
    newest = dict(zip(entries.partitions, entries.newest().tolist(), strict=True))
    assert sorted(one.updated_ms or 0 for one in aged.values()) == sorted(newest.values())
    assert sum(one.files for one in aged.values()) == len(entries)
