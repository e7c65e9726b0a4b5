"""Lookups in every golden table with a primary key equal the merged read, after each of its commits."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import lakecore
from lakecore.errors import UnsupportedError
from lakecore.lookup.query.local_query import LocalTableQuery
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.row.json_rows import batch_to_json
from lakecore.scan.file_monitor import FileMonitor
from lakecore.scan.filters import EVERYTHING, ScanFilter
from lakecore.table import Table
from tests.support.golden import GoldenTable, golden_tables

TOP = (1 << 31) - 1
KEYED = [table for table in golden_tables() if table.facts["schema"]["primaryKeys"]]


def merged(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """The rows of a merged read of the levels that lookups search, with the columns of the latest schema."""
    where = ScanFilter(levels=(1, TOP)) if table.options.needs_lookup else EVERYTHING
    source = SnapshotRows(table._scanner, table._read_context(), snapshot, where=where)
    return lakecore.Scan.of(source, None, None, None).to_arrow()


def lines(table: Table, rows: pa.Table) -> list[str]:
    kind = table.schema.row_type.select(rows.column_names)
    return [line for batch in rows.to_batches() for line in batch_to_json(batch, kind)]


def key_names(table: Table) -> list[str]:
    return list(dict.fromkeys((*table.schema.primary_keys, *table.schema.partition_keys)))


def check(table: Table, query: LocalTableQuery, expected: pa.Table, others: pa.Table) -> None:
    """Keys of `expected` are found with their rows; those of `others` only if they are among them."""
    found = query.lookup_table(expected)
    assert found.matches.to_pylist() == [True] * expected.num_rows
    assert lines(table, found.rows) == lines(table, expected)
    names = key_names(table)
    have = set(lines(table, expected.select(names)))
    absent = query.lookup_table(others)
    wanted = [line in have for line in lines(table, others.select(names))]
    assert absent.matches.to_pylist() == wanted
    assert absent.rows.num_rows == others.num_rows


def states(table: Table) -> Iterator[tuple[Snapshot, LocalTableQuery]]:
    """The query after each snapshot that is left, refreshed by files before and after."""
    earliest = table._stores.snapshots.earliest()
    with table.new_query() as query:
        for plan in FileMonitor(table._scanner, start=earliest):
            for one in plan.buckets:
                if one.bucket >= 0:
                    query.refresh_files(
                        one.partition,
                        one.bucket,
                        one.before,
                        one.after,
                        total_buckets=one.total_buckets,
                        deletions=one.deletions,
                    )
            yield plan.snapshot, query


def needs_merge(options: dict[str, str]) -> bool:
    """Whether Paimon's partial lookup table refuses the table: the nearest row of a key may not be its row."""
    looks_up = (
        options.get("changelog-producer") == "lookup" or options.get("deletion-vectors.enabled") == "true"
    )
    engine = options.get("merge-engine", "deduplicate")
    if looks_up or engine == "first-row":
        return False
    return engine != "deduplicate" or "sequence.field" in options


@pytest.mark.parametrize("golden", KEYED, ids=lambda table: table.name)
def test_after_each_commit(golden: GoldenTable) -> None:
    table = lakecore.load_catalog(str(golden.warehouse)).load_table(golden.name)
    if needs_merge(golden.options):
        with pytest.raises(UnsupportedError, match="cannot be looked up, because"):
            table.new_query()
        return
    expected = {snapshot.id: merged(table, snapshot) for snapshot in table.snapshots()}
    everything = pa.concat_tables(expected.values()) if expected else merged(table, None)
    for snapshot, query in states(table):
        check(table, query, expected[snapshot.id], everything)
    with table.new_query() as query:
        latest = query.refresh()
        assert latest == max(expected, default=None)
        check(table, query, merged(table, table.latest_snapshot()), everything)


def test_tables_are_not_left_out() -> None:
    refused = [table.name for table in KEYED if needs_merge(table.options)]
    assert (len(KEYED), len(refused)) == (152, 28)
