"""UPDATE and MERGE INTO: Java reads what lakecore changed, for each way in which rows are changed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakecore
from lakecore.table import Table
from lakecore.write.row_level.clauses import (
    MatchedRows,
    MergeRules,
    UnmatchedRows,
    WhenMatched,
    WhenNotMatched,
)
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


Row = tuple[str, str | None, int | None]
Condition = tuple[Any, Any]
"""A condition, and whether it is true for a row of the table and one of the source; null is not."""
OF_BOTH: tuple[Condition, ...] = (
    ("`source.n` > 5", lambda row, new: new[2] is not None and new[2] > 5),
    (pc.field("n") < pc.field("source.n"), lambda row, new: None not in (row[2], new[2]) and row[2] < new[2]),
    ("n is null and p = 'a'", lambda row, new: row[2] is None and row[0] == "a"),
    (
        pc.field("source.v") == pc.field("v"),
        lambda row, new: None not in (row[1], new[1]) and row[1] == new[1],
    ),
)
OF_SOURCE: tuple[Condition, ...] = (
    ("`source.n` < 8", lambda row, new: new[2] is not None and new[2] < 8),
    (pc.field("source.n") > 2, lambda row, new: new[2] is not None and new[2] > 2),
    ("`source.v` is null", lambda row, new: new[1] is None),
)
ALWAYS: Condition = (None, lambda row, new: True)


def clauses(chance: random.Random) -> tuple[list[Any], list[Any]]:
    """Some clauses in order, each with the function that says for which rows its condition is true."""
    matched: list[Any] = []
    for condition, is_true in [*chance.sample(OF_BOTH, chance.randrange(4)), *chance.choice(([], [ALWAYS]))]:
        action = chance.choice([*MatchedRows, MatchedRows.UPDATE])
        sets = action is MatchedRows.UPDATE and chance.random() < 0.5
        values: dict[str, Any] = {"v": pc.field("source.v"), "n": 7} if sets else {}
        matched.append((WhenMatched(action=action, condition=condition, set=values), is_true))
    added: list[Any] = []
    for condition, is_true in [
        *chance.sample(OF_SOURCE, chance.randrange(3)),
        *chance.choice(([], [ALWAYS])),
    ]:
        added.append((WhenNotMatched(action=chance.choice([*UnmatchedRows]), condition=condition), is_true))
    return matched, added


def merge_in_python(rows: Rows, source: Rows, matched: list[Any], added: list[Any]) -> Rows:
    """MERGE of SQL: the first clause of its kind whose condition is true applies."""
    result = dict(rows)
    for key, new in source.items():
        old = rows.get(key)
        kind = added if old is None else matched
        clause = next((one for one, is_true in kind if is_true(old, new)), None)
        if clause is None or clause.action in (MatchedRows.IGNORE, UnmatchedRows.IGNORE):
            continue
        if clause.action is UnmatchedRows.INSERT:
            result[key] = new
        elif clause.action is MatchedRows.DELETE:
            del result[key]
        else:
            assert old is not None
            result[key] = (old[0], new[1], 7) if clause.set else (old[0], new[1], new[2])
    return result


@pytest.mark.parametrize("kind", ["keyed", "vectors", "rewritten-buckets"])
def test_the_first_clause_whose_condition_is_true_applies(oracle: Oracle, tmp_path: Path, kind: str) -> None:
    """Random clauses on random rows: as in Python, and Java reads it."""
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True)
    table = catalog.create_table("d.t", KINDS[kind])
    chance = random.Random(f"clauses {kind}")
    rows: Rows = {}
    seen = set()
    for number in range(24):
        keys = chance.sample(range(16), 9)
        places = {k: rows[k][0] if k in rows else chance.choice("ab") for k in keys}
        source: Rows = {
            k: (place, chance.choice((None, "v", "w")), chance.choice((None, *range(10))))
            for k, place in places.items()
        }
        matched, added = clauses(chance)
        ordered = [one for one, _ in (*matched, *added)]
        if not ordered:
            continue
        on = ["k"] if "p" not in table.schema.partition_keys else ["k", "p"]
        done = table.merge(arrow(source), on, MergeRules(clauses=ordered))
        expected = merge_in_python(rows, source, matched, added)
        assert (done.inserted, done.deleted) == (len(expected.keys() - rows), len(rows.keys() - expected))
        seen.add((done.inserted > 0, done.deleted > 0, done.updated > 0))
        rows = expected
        ours = table.scan().to_arrow().to_pylist()
        assert sorted((row["k"], row["p"], row["v"], row["n"]) for row in ours) == lines(rows), number
        if number % 6 == 5:
            assert java_rows(oracle, tmp_path, "d.t") == lines(rows)
    assert len(seen) > 3
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()


def test_rows_of_java_that_reads_do_not_show_yet_are_not_lost(
    tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    """Reads of a table with deletion vectors show the rows of level 0 only after the next compaction."""
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"}
    oracle.create(tmp_path, "d.t", {"columns": COLUMNS, "primaryKeys": ["k"], "options": options})
    old = [{"k": k, "p": "a", "v": "old", "n": 1} for k in range(4)]
    oracle.write(tmp_path, "d.t", old, "--identifier", 1)
    oracle.compact(tmp_path, "d.t", full=True)
    oracle.write(tmp_path, "d.t", [row | {"v": "new"} for row in old[:2]], "--identifier", 2)
    table = lakecore.load_catalog(str(tmp_path), **{"local.fsync": "false"}).load_table("d.t")
    assert table.update({"n": 7}, "k <> 1").rows == 3
    assert table.delete("v = 'old' and k < 3").rows == 1
    oracle.compact(tmp_path, "d.t", full=True)
    rows = [(0, "new", 7), (1, "new", 1), (3, "old", 7)]
    for java in (oracle, oracle2):
        read = [json.loads(row) for row in java.read(tmp_path, "d.t")]
        assert sorted((row["k"], row["v"], row["n"]) for row in read) == rows
        assert findings(java.fsck(tmp_path, "d.t")) == set()
