"""Random histories of tables that are looked up: after each step all keys answer as a merged read does."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import lakecore
from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.jobs import compact, expire_snapshots
from lakecore.lookup.query.local_query import LocalTableQuery
from lakecore.lookup.query.lookup_cache import LookupCache
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.scan.filters import EVERYTHING, ScanFilter
from lakecore.table import Table
from tests.support.lake import key_table, memory_catalog, put

TABLES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "buckets": {"bucket": "3"},
    "lookup": {"changelog_producer": "lookup", "bucket": "2"},
    "vectors": {"deletion_vectors__enabled": "true"},
    "force": {"force_lookup": "true"},
    "first-row": {"merge_engine": "first-row", "ignore_delete": "true"},
    "sum": {
        "merge_engine": "aggregation",
        "fields__v__aggregate_function": "sum",
        "changelog_producer": "lookup",
    },
    "partial": {
        "merge_engine": "partial-update",
        "ignore_delete": "true",
        "deletion_vectors__enabled": "true",
    },
    "sequence": {"sequence__field": "v", "changelog_producer": "lookup"},
    "few levels": {"num_levels": "2", "bucket": "2"},
}
KEYS = 60
pytestmark = pytest.mark.slow


def merged(table: Table) -> dict[tuple[int, str], dict[str, Any]]:
    """The rows of the levels that are searched."""
    where = ScanFilter(levels=(1, 99)) if table.options.needs_lookup else EVERYTHING
    source = SnapshotRows(table._scanner, table._read_context(), table.latest_snapshot(), where=where)
    rows = lakecore.Scan.of(source, None, None, None).to_arrow().to_pylist()
    return {(row["p"], row["k"]): row for row in rows}


def check(table: Table, query: LocalTableQuery) -> None:
    query.refresh()
    expected = merged(table)
    keys = [{"p": p, "k": f"key-{k}"} for p in range(2) for k in range(KEYS)]
    found = query.lookup_table(pa.Table.from_pylist(keys, pa.schema([("p", pa.int32()), ("k", pa.string())])))
    answers = [
        row if there else None
        for row, there in zip(found.rows.to_pylist(), found.matches.to_pylist(), strict=True)
    ]
    assert answers == [expected.get((key["p"], key["k"])) for key in keys]


def step(catalog: FilesystemCatalog, table: Table, source: random.Random, number: int) -> None:
    match source.choice(["put", "put", "put", "compact", "full", "expire", "overwrite"]):
        case "put":
            rows = [
                {"p": source.randrange(2), "k": f"key-{source.randrange(KEYS)}", "v": source.randrange(99)}
                for _ in range(20)
            ]
            kinds = [source.choice(["+I", "+I", "+I", "-D"]) for _ in rows]
            put(table, [{**row, "_kind": kind} for row, kind in zip(rows, kinds, strict=True)])
        case "expire":
            expiry = expire_snapshots.Job(table="d.k", retain_max=1, retain_min=1)
            expire_snapshots.run(expiry, catalog, clock=catalog.clock)
        case "overwrite":
            table.overwrite(
                pa.table({"p": pa.array([1], pa.int32()), "k": ["key-1"], "v": pa.array([5], pa.int32())}),
                partitions="p=1",
            )
        case kind:
            strategy = compact.Strategy.FULL if kind == "full" else compact.Strategy.UNIVERSAL
            compact.run(
                compact.Job(table="d.k", strategy=strategy, commit_identifier=number),
                catalog,
                clock=catalog.clock,
            )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TABLES)
def test_all_keys_after_each_step(name: str, seed: int) -> None:
    catalog = memory_catalog("histories")
    columns = ("p INT", "k STRING", "v INT")
    table = key_table(catalog, columns, ("p", "k"), ("p",), **TABLES[name])
    put(table, [{"p": k % 2, "k": f"key-{k}", "v": k} for k in range(0, KEYS, 2)])
    source = random.Random(f"{name}-{seed}")
    with table.new_query(cache=LookupCache()) as often, table.new_query(cache=LookupCache()) as seldom:
        check(table, often)
        check(table, seldom)
        for number in range(1, 16):
            step(catalog, table, source, number)
            check(table, often)
            if source.random() < 0.3:
                check(table, seldom)
