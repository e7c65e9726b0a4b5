"""Incremental clustering: runs are put in order by levels, nothing is lost, and old partitions are taken along."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lakecore.compact.kinds.sort.plan import file_groups
from lakecore.errors import UnsupportedError
from lakecore.jobs import compact
from lakecore.jobs.compact import Job, Strategy
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.row.sort_rule import OrderStrategy, SortRule
from lakecore.table import Table
from tests.lakecore.compact.test_cluster import Meddling, TwoCores, keys_of
from tests.support.builders import data_file
from tests.support.lake import append_table, live_files, memory_catalog, put, rows_of

CLUSTERED = {
    "clustering__incremental": "true",
    "clustering__columns": "a, b",
    "clustering__strategy": "order",
    "num_sorted_run__compaction_trigger": "3",
}
RULE = SortRule(OrderStrategy.ORDER, ("a", "b"))


def fill(table: Table, commits: int = 1, rows: int = 40, partitions: str = "xy", seed: int = 1) -> None:
    chance = random.Random(seed)
    for _ in range(commits):
        made = [(p, chance.choice([None, chance.randrange(99)])) for p in partitions for _ in range(rows)]
        put(table, [{"a": a, "b": chance.randrange(9), "p": p} for p, a in made])


def clustered(name: str, **options: str) -> tuple[Any, Table]:
    catalog = memory_catalog(name)
    return catalog, append_table(catalog, ("a INT", "b INT", "p STRING"), ("p",), **CLUSTERED | options)


def levels(table: Table) -> list[int]:
    return sorted(file.level for file in live_files(table))


def job(table: Table, **more: Any) -> Job:
    return Job(table=table.name, **more)


def ordered(table: Table, level: int) -> None:
    """The rows of each partition on `level` are in order as a whole."""
    names = {file.file_name for file in live_files(table) if file.level == level}
    assert names
    for files in keys_of(table, RULE, names).values():
        flat = [key for keys in files for key in keys]
        assert flat == sorted(flat)


def test_new_files_wait_for_enough_of_them_then_join_the_runs_of_their_size() -> None:
    catalog, table = clustered("clustering", target_file_size="1 kb")
    fill(table, 2)
    assert compact.run(job(table), catalog, clock=catalog.clock).nothing_to_do
    fill(table, 1)
    before = rows_of(table)
    told = compact.run(job(table, dry_run=True), catalog, clock=catalog.clock)
    assert "order(a, b), size-ratio -> L3: merge 3 files" in told.planned[0]
    first = compact.run(job(table), catalog, TwoCores(), catalog.clock)
    assert (first.error, first.picks_done, first.before.sorted_runs, first.after.sorted_runs) == (
        None,
        2,
        6,
        2,
    )
    assert set(levels(table)) == {3}
    assert len(live_files(table)) > 2
    ordered(table, 3)
    fill(table, 2, rows=2)
    assert (
        "size-ratio -> L2: merge 2 files"
        in compact.run(job(table, dry_run=True), catalog, clock=catalog.clock).planned[0]
    )
    compact.run(job(table), catalog, clock=catalog.clock)
    assert set(levels(table)) == {2, 3}
    fill(table, 1, rows=1, partitions="x")
    whole = compact.run(job(table, strategy=Strategy.FULL), catalog, clock=catalog.clock)
    assert (whole.after.sorted_runs, set(levels(table))) == (2, {3})
    ordered(table, 3)
    assert compact.run(job(table, strategy=Strategy.FULL), catalog, clock=catalog.clock).nothing_to_do
    assert len(rows_of(table)) == len(before) + 9


def test_other_columns_are_a_reason_for_a_full_clustering() -> None:
    catalog, table = clustered("clustering-columns")
    fill(table, 3)
    full = job(table, strategy=Strategy.FULL)
    compact.run(full, catalog, clock=catalog.clock)
    catalog.alter_table("d.a", [{"op": "set", "key": "clustering.columns", "value": "b"}])
    assert compact.run(full, catalog, clock=catalog.clock).picks_done == 2
    assert compact.run(full, catalog, clock=catalog.clock).nothing_to_do


@pytest.mark.parametrize("deed", ["insert", "delete", "compact"])
def test_nothing_is_lost_whatever_happens_meanwhile(deed: str) -> None:
    catalog, table = clustered("clustering-race", deletion_vectors__enabled="true")
    fill(table, 3)
    table.delete("b = 1")
    other = job(table, strategy=Strategy.FULL, where="p=x")

    def happens() -> None:
        if deed == "insert":
            fill(table, 1, rows=3, seed=2)
        elif deed == "delete":
            table.delete("b = 2")
        else:
            compact.run(other, catalog, clock=catalog.clock)

    twin = clustered("clustering-twin", deletion_vectors__enabled="true")[1]
    fill(twin, 3)
    twin.delete("b = 1")
    if deed == "insert":
        fill(twin, 1, rows=3, seed=2)
    elif deed == "delete":
        twin.delete("b = 2")
    report = compact.run(job(table, strategy=Strategy.FULL), catalog, Meddling(happens), catalog.clock)
    assert (report.error, report.dropped) == (None, ())
    assert rows_of(table) == rows_of(twin)
    assert {0, 3} >= set(levels(table))


def test_rows_are_in_order_within_units_where_that_is_enough() -> None:
    catalog, table = clustered(
        "clustering-local", clustering__incremental__mode="local-sort", target_file_size="1 kb"
    )
    fill(table, 4, rows=200, partitions="x")
    before = rows_of(table)
    report = compact.run(job(table), catalog, TwoCores(), catalog.clock)
    assert (report.error, report.files_in, set(levels(table))) == (None, 4, {3})
    assert (
        "2 groups"
        in compact.run(
            job(table, dry_run=True, options={"num-levels": "6"}, strategy=Strategy.FULL), catalog, TwoCores()
        ).planned[0]
        or report.files_out >= 2
    )
    assert rows_of(table) == before
    for files in keys_of(table, RULE).values():
        assert all(keys == sorted(keys) for keys in files)


def test_idle_partitions_are_taken_along() -> None:
    catalog, table = clustered(
        "clustering-idle",
        clustering__history_partition__idle_to_full_sort="1 h",
        clustering__history_partition__limit="2",
    )
    for p in "cba":
        fill(table, 1, rows=2, partitions=p)
        catalog.clock.sleep(60)
    catalog.clock.sleep(3600)
    fill(table, 1, rows=2, partitions="de")
    report = compact.run(job(table, where="p=d"), catalog, clock=catalog.clock)
    assert (report.picks_done, report.before.files, report.after.levels) == (2, 3, {0: 1, 3: 2})
    by_partition = {f"p={p}": file.level for p, file in _files(table)}
    assert by_partition == {"p=a": 0, "p=b": 3, "p=c": 3, "p=d": 0, "p=e": 0}
    assert compact.run(
        job(table), catalog, clock=catalog.clock
    ).nothing_to_do  # nothing is asked for: none is old


def _files(table: Table) -> list[tuple[str, DataFile]]:
    latest = table._stores.snapshots.latest()
    assert latest is not None
    context = table._read_context()
    return [
        (context.bucket_dir(entry.partition, entry.bucket).split("p=")[1][0], entry.file)
        for entry in table._scanner.live_entries(latest)
    ]


@pytest.mark.parametrize(
    ("sizes", "count", "groups"),
    [
        ((1, 1, 1, 1), 2, ((0, 1), (2, 3))),
        ((9, 1, 1), 2, ((0,), (1, 2))),
        ((1,), 4, ((0,),)),
        ((5, 5, 5), 1, ((0, 1, 2),)),
    ],
)
def test_groups_of_neighbours(
    sizes: tuple[int, ...], count: int, groups: tuple[tuple[int, ...], ...]
) -> None:
    assert file_groups([data_file("f", size=size) for size in sizes], count) == groups


@pytest.mark.parametrize(
    ("table_options", "text"),
    [
        ({"row_tracking__enabled": "true", "data_evolution__enabled": "true"}, "data-evolution"),
        ({"bucket": "2", "bucket_key": "a"}, "bucket-append-ordered"),
    ],
)
def test_a_run_cannot_cluster_what_keeps_another_order(table_options: dict[str, str], text: str) -> None:
    catalog = memory_catalog("clustering-refused")
    table = append_table(catalog, ("a INT", "b INT", "p STRING"), ("p",), **table_options)
    fill(table, 3, rows=2)
    options = {"clustering.incremental": "true", "clustering.columns": "a"}
    with pytest.raises(UnsupportedError, match=text):
        compact.run(job(table, options=options), catalog, clock=catalog.clock)
