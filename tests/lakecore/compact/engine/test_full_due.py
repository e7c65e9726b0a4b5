"""`full-compaction.delta-commits`: after so many commits a universal compaction is a full one."""

from __future__ import annotations

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.compact.engine.full_due import full_is_due, of_a_writer
from lakecore.compact.engine.strategy import Strategy
from lakecore.jobs import compact
from lakecore.table import Table
from tests.support.lake import key_table, live_files, memory_catalog, put


@pytest.fixture
def catalog() -> FilesystemCatalog:
    return memory_catalog("full-due")


def written(table: Table, value: int, keys: tuple[int, ...] = (1, 2)) -> None:
    put(table, [{"k": key, "v": f"{value}"} for key in keys])


def compacted(catalog: FilesystemCatalog, **options: str) -> compact.Report:
    report = compact.run(compact.Job(table="d.k", options=options), catalog)
    assert report.error is None
    return report


def told(table: Table, since: int) -> list[tuple[int, int]]:
    """Snapshots that tell changes, and how many."""
    found = table.stream(snapshot=since)
    return [(one.snapshot.id, sum(batch.num_rows for batch in one.to_batches())) for one in found]


def is_full(table: Table) -> bool:
    return {file.level for file in live_files(table)} == {5}


def test_after_every_commit(catalog: FilesystemCatalog) -> None:
    """The defect: a stream got nothing until somebody asked for a full compaction."""
    options = {"changelog-producer": "full-compaction", "full-compaction__delta_commits": "1"}
    table = key_table(catalog, **{key.replace("-", "_"): value for key, value in options.items()})
    for number in range(1, 4):
        written(table, number)
        assert compacted(catalog).warnings == ()
        assert is_full(table)
        assert compacted(catalog).nothing_to_do
    assert told(table, 1) == [(2, 2), (4, 4), (6, 4)]


def test_after_so_many_commits(catalog: FilesystemCatalog) -> None:
    table = key_table(
        catalog, changelog_producer="full-compaction", **{"full-compaction__delta-commits": "3"}
    )
    for number in (1, 2):
        written(table, number)
        assert compacted(catalog).nothing_to_do, number
    written(table, 3)
    assert not compacted(catalog).nothing_to_do
    assert is_full(table)
    for number in (4, 5):
        written(table, number)
        assert compacted(catalog).nothing_to_do, number
    written(table, 6)
    compacted(catalog)
    assert is_full(table)
    assert [snapshot for snapshot, _ in told(table, 1)] == [4, 8]


def test_what_other_compactions_did_meanwhile_counts(catalog: FilesystemCatalog) -> None:
    """Universal picks that stop above the last level do not reset the count; full ones do."""
    table = key_table(catalog, **{"full-compaction__delta-commits": "4"})
    written(table, 0, tuple(range(3000)))
    compact.run(compact.Job(table="d.k", strategy=Strategy.FULL), catalog)
    for number in range(1, 4):
        written(table, number)
        compacted(catalog, **{"num-sorted-run.compaction-trigger": "2", "num-levels": "6"})
        assert not is_full(table), "the small runs are merged on their own"
    written(table, 4)
    compacted(catalog)
    assert is_full(table)
    written(table, 5)
    compact.run(compact.Job(table="d.k", strategy=Strategy.FULL), catalog)
    for number in range(6, 9):
        written(table, number)
    assert not full_is_due(table._scanner, table.schema, table.options)
    written(table, 9)
    assert full_is_due(table._scanner, table.schema, table.options)


def test_where_older_snapshots_expired_files_are_taken_for_old(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, **{"full-compaction__delta-commits": "9"})
    for number in (1, 2):
        written(table, number)
    assert not full_is_due(table._scanner, table.schema, table.options)
    table._stores.file_io.delete(table._stores.paths.snapshot(1))
    assert full_is_due(table._scanner, table.schema, table.options)


def test_without_the_option_nothing_is_due_but_it_is_said(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, changelog_producer="full-compaction")
    written(table, 1)
    report = compacted(catalog)
    assert report.nothing_to_do
    assert "set full-compaction.delta-commits" in report.warnings[0]
    assert of_a_writer(table.schema, table.options) is Strategy.FULL
    plain = catalog.create_table("d.plain", {"columns": ["k INT"], "primaryKeys": ["k"]})
    assert of_a_writer(plain.schema, plain.options) is Strategy.UNIVERSAL
