"""UPDATE and MERGE INTO: Java reads what lakecore changed, for each way in which rows are changed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakecore
from lakecore.table import Table
from lakecore.write.row_level.clauses import MatchedRows, MergeRules, UnmatchedRows
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

COLUMNS = ["k INT NOT NULL", "p STRING NOT NULL", "v STRING", "n BIGINT"]
KINDS: dict[str, dict[str, Any]] = {
    "keyed": {"columns": COLUMNS, "primaryKeys": ["k"], "options": {"bucket": "2"}},
    "partitioned": {
        "columns": COLUMNS,
        "primaryKeys": ["k", "p"],
        "partitionKeys": ["p"],
        "options": {"bucket": "-1"},
    },
    "partial": {
        "columns": COLUMNS,
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "merge-engine": "partial-update", "changelog-producer": "lookup"},
    },
    "vectors": {
        "columns": COLUMNS,
        "partitionKeys": ["p"],
        "options": {"bucket": "-1", "deletion-vectors.enabled": "true"},
    },
    "buckets": {
        "columns": COLUMNS,
        "options": {"bucket": "2", "bucket-key": "k", "deletion-vectors.enabled": "true"},
    },
    "rewritten": {"columns": COLUMNS, "partitionKeys": ["p"], "options": {"bucket": "-1"}},
    "rewritten-buckets": {"columns": COLUMNS, "options": {"bucket": "2", "bucket-key": "k"}},
}
Rows = dict[int, tuple[str, str | None, int | None]]


def arrow(rows: Rows) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(list(rows), pa.int32()),
            "p": pa.array([row[0] for row in rows.values()], pa.string()),
            "v": pa.array([row[1] for row in rows.values()], pa.string()),
            "n": pa.array([row[2] for row in rows.values()], pa.int64()),
        }
    )


def lines(rows: Rows) -> list[tuple[Any, ...]]:
    return sorted((k, *row) for k, row in rows.items())


def java_rows(oracle: Oracle, warehouse: Path, name: str) -> list[tuple[Any, ...]]:
    found = oracle.call("read", warehouse, name)
    return sorted((row["k"], row["p"], row["v"], row["n"]) for row in found)


def step(table: Table, rows: Rows, chance: random.Random, *, may_delete: bool) -> Rows:
    """One random change of the table; the rows that it has then."""
    kind = chance.choice(["set", "compute", "merge", "merge", *(["delete", "sync"] if may_delete else [])])
    if kind == "set":
        low = chance.randrange(12)
        table.update({"v": "set", "n": 7}, f"k >= {low} and k < {low + 4}")
        return {k: (r[0], "set", 7) if low <= k < low + 4 else r for k, r in rows.items()}
    if kind == "compute":
        table.update(
            {"n": pc.add(pc.coalesce(pc.field("n"), pa.scalar(0, pa.int64())), pc.field("k"))}, "p = 'a'"
        )
        return {k: (r[0], r[1], (r[2] or 0) + k) if r[0] == "a" else r for k, r in rows.items()}
    keys = chance.sample(range(16), 5)
    if kind == "sync":
        keys = [k for k in rows if chance.random() < 0.8] + [20 + chance.randrange(5)]
    source: Rows = {
        k: (rows[k][0] if k in rows else chance.choice("ab"), f"m{chance.random():.3f}", k) for k in keys
    }
    on = ["k", "p"]
    if kind == "merge":
        rules = MergeRules(set={"v": pc.field("source.v")})
        table.merge(arrow(source), on if "p" in table.schema.primary_keys else ["k"], rules)
        old = {k: (r[0], source[k][1], r[2]) if k in source else r for k, r in rows.items()}
        return {**source, **old}
    if kind == "delete":
        rules = MergeRules(matched=MatchedRows.DELETE, not_matched=UnmatchedRows.IGNORE)
        result = table.merge(arrow(source).select(["k", "p"]), on, rules)
        assert result.deleted == len(rows.keys() & source.keys())
        return {k: r for k, r in rows.items() if k not in source}
    table.merge(arrow(source), on, MergeRules(delete_not_matched_by_source=True))
    return source


@pytest.mark.parametrize("kind", KINDS)
def test_java_reads_what_was_changed(oracle: Oracle, tmp_path: Path, kind: str) -> None:
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True)
    table = catalog.create_table("d.t", KINDS[kind])
    chance = random.Random(kind)
    rows: Rows = {k: (chance.choice("ab"), f"v{k}", None if k % 3 else k) for k in range(10)}
    table.write(arrow({k: r for k, r in rows.items() if k < 5}))
    table.write(arrow({k: r for k, r in rows.items() if k >= 5}))
    for _ in range(6):
        rows = step(table, rows, chance, may_delete=kind != "partial")
        assert java_rows(oracle, tmp_path, "d.t") == lines(rows)
        ours = table.scan().to_arrow().to_pylist()
        assert sorted((row["k"], row["p"], row["v"], row["n"]) for row in ours) == lines(rows)
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()
    before = table.latest_snapshot()
    assert table.update({"v": "x"}, "k = 99").rows == 0
    assert table.latest_snapshot() == before


@pytest.mark.parametrize("kind", ["vectors", "rewritten"])
def test_java_compacts_what_was_changed(oracle: Oracle, tmp_path: Path, kind: str) -> None:
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True)
    table = catalog.create_table("d.t", KINDS[kind])
    rows: Rows = {k: ("a", f"v{k}", k) for k in range(10)}
    table.write(arrow(rows))
    table.update({"v": "x"}, "k < 5")
    oracle.call("compact", tmp_path, "d.t", "--full")
    table.update({"n": 1}, "k < 3")
    expected = {k: ("a", "x" if k < 5 else f"v{k}", 1 if k < 3 else k) for k in range(10)}
    assert java_rows(oracle, tmp_path, "d.t") == lines(expected)
