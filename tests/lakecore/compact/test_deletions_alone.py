"""A full compaction rids files of deleted rows, also where a file is all that its bucket has."""

from __future__ import annotations

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.jobs import compact
from lakecore.table import Table
from tests.support.lake import key_table, live_files, memory_catalog, put, rows_of

FULL, UNIVERSAL = compact.Strategy.FULL, compact.Strategy.UNIVERSAL


@pytest.fixture
def catalog(request: pytest.FixtureRequest) -> FilesystemCatalog:
    return memory_catalog(f"alone-{request.node.name}")


@pytest.fixture
def table(catalog: FilesystemCatalog) -> Table:
    """Four buckets, each with one file on the last level, in which some rows are deleted."""
    table = key_table(catalog, deletion_vectors__enabled="true", bucket="4")
    put(table, [{"k": k, "v": f"v{k}"} for k in range(40)])
    compacted(catalog, FULL, 1)
    put(table, [{"k": k, "v": None, "_kind": "-D"} for k in range(0, 40, 3)])
    compacted(catalog, UNIVERSAL, 2)
    return table


def compacted(catalog: FilesystemCatalog, strategy: compact.Strategy, number: int) -> None:
    job = compact.Job(table="d.k", strategy=strategy, commit_identifier=number)
    compact.run(job, catalog, clock=catalog.clock)


def deleted(table: Table) -> set[int]:
    """Buckets with deleted rows."""
    latest = table._stores.snapshots.latest()
    assert latest is not None
    return {bucket for _, bucket, _ in table._scanner.deletions(latest)}


def test_no_bucket_keeps_its_deleted_rows(catalog: FilesystemCatalog, table: Table) -> None:
    assert len(live_files(table)) == 4
    assert deleted(table) == {0, 1, 2, 3}
    rows = rows_of(table)
    compacted(catalog, FULL, 3)
    assert deleted(table) == set()
    assert sum(file.row_count for file in live_files(table)) == len(rows) == 26
    assert rows_of(table) == rows
