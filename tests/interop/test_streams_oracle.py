"""Streams next to Java's, plan by plan: logs of changes as streams, and what overwrites change under each merge
engine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import compact
from lakecore.read.source.stream import Changes, Stream
from lakecore.row.json_rows import batch_to_json
from tests.support.oracle import Oracle, OracleError
from tests.support.tall_tree import run_limit

pytestmark = pytest.mark.slow

Row = dict[str, Any]
FIRST = [{"p": p, "k": k, "a": k, "b": f"{p}{k}"} for p in ("x", "y") for k in range(4)]
STEPS: tuple[tuple[str, list[Row]], ...] = (
    ("write", FIRST),
    ("compact", []),
    ("write", [{"p": "x", "k": 1, "a": None, "b": "new"}, {"p": "y", "k": 9, "a": 9, "b": None}]),
    ("write", [{"p": "x", "k": 2, "a": 2, "b": "x2", "_kind": "-D"}, {"p": "x", "k": 3, "a": 30, "b": None}]),
    ("compact", []),
    ("x", [{"p": "x", "k": 1, "a": 100, "b": "over"}]),
    ("write", [{"p": "y", "k": 0, "a": 5, "b": "late"}]),
)
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"partial-update.remove-record-on-delete": "true"},
    "aggregation": {
        "fields.a.aggregate-function": "sum",
        "fields.b.aggregate-function": "last_non_null_value",
    },
    "first-row": {"ignore-delete": "true"},
}


def table_of(oracle: Oracle, warehouse: Path, engine: str | None, **options: str) -> None:
    """A table of two partitions with the history of STEPS, written by Java, compacted by lakecore."""
    keys = [] if engine is None else ["p", "k"]
    raw = {"bucket": "1", "write-only": "true"} if engine else {"bucket": "-1", "write-only": "true"}
    given = {} if engine is None else {"merge-engine": engine, **ENGINES[engine]}
    not_null = " NOT NULL" if keys else ""
    spec = {
        "columns": [f"p STRING{not_null}", f"k INT{not_null}", "a INT", "b STRING"],
        "partitionKeys": ["p"],
        "primaryKeys": keys,
        "options": {**raw, **given, **options},
    }
    oracle.create(warehouse, "d.t", spec)
    for step, rows in STEPS:
        if step == "compact":
            catalog = load_catalog(str(warehouse))
            report = compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), catalog)
            assert report.error is None
            continue
        kept = rows if keys else [{k: v for k, v in row.items() if k != "_kind"} for row in rows]
        flags = () if step == "write" else ("--overwrite", f"p={step}")
        oracle.write(warehouse, "d.t", kept, *flags)


def plans_of(stream: Stream) -> list[dict[str, Any]]:
    """Our plans in the oracle's form: the kind is a column of the row."""
    return [
        {
            "snapshots": [changes.snapshot.id],
            "next": changes.next_snapshot,
            "watermark": stream.watermark,
            "rows": rows_of(changes),
        }
        for changes in iter(stream.poll, None)
    ]


def rows_of(changes: Changes) -> list[Row]:
    symbols, found = ("+I", "-U", "+U", "-D"), []
    for batch in changes.to_batches():
        kinds = batch.column("_VALUE_KIND").to_pylist()
        lines = batch_to_json(batch.select(list(changes.rows.columns)), changes.rows.row_type)
        found += [
            {"_kind": symbols[kind], **json.loads(line)} for kind, line in zip(kinds, lines, strict=True)
        ]
    return found


def theirs(oracle: Oracle, warehouse: Path, name: str, start: int | None, **options: str) -> Any:
    flags = ["--mode", "latest-full"] if start is None else ["--from-snapshot", start]
    for key, value in options.items():
        flags += ["--option", f"{key}={value}"]
    return oracle.call("stream", warehouse, name, *flags)


def ours(warehouse: Path, name: str, start: int | None, **options: str) -> list[dict[str, Any]]:
    table = load_catalog(str(warehouse)).load_table(name, options)
    given: Mapping[str, Any] = {"mode": "latest-full"} if start is None else {"snapshot": start}
    return plans_of(table.stream(**given))


def in_partitions(plans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Java reads the partitions of a plan in the order of a hash map."""
    return [
        {**plan, "rows": sorted(plan["rows"], key=lambda row: str(row["p"]))} for plan in plans
    ]  # stable: rows of a partition stay in their order


LOGGED = [
    ("deduplicate", "none"),
    ("deduplicate", "input"),
    ("deduplicate", "lookup"),
    ("deduplicate", "full-compaction"),
    ("partial-update", "none"),
    ("aggregation", "lookup"),
    (None, "none"),
]


@pytest.mark.parametrize(("engine", "producer"), LOGGED, ids=lambda value: str(value))
@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_logs_are_streams(
    oracles: dict[str, Oracle], tmp_path: Path, version: str, engine: str | None, producer: str
) -> None:
    """From the whole state and from the first snapshot, `$audit_log` and `$binlog` have the rows of Java's."""
    oracle = oracles[version]
    table_of(oracle, tmp_path, engine, **({} if engine is None else {"changelog-producer": producer}))
    for kind in ("audit_log", "binlog"):
        for start in (None, 1):
            name = f"d.t${kind}"
            found, want = ours(tmp_path, name, start), theirs(oracle, tmp_path, name, start)
            assert want, "Java's stream has rows"
            assert in_partitions(found) == in_partitions(want), (kind, start)
    if engine is None:
        assert in_partitions(ours(tmp_path, "d.t$ro", 1)) == in_partitions(
            theirs(oracle, tmp_path, "d.t$ro", 1)
        )
    else:
        with pytest.raises(OracleError, match="Unsupported streaming"):
            theirs(oracle, tmp_path, "d.t$ro", 1)


@pytest.mark.parametrize("engine", list(ENGINES))
def test_what_overwrites_replace(oracles: dict[str, Oracle], tmp_path: Path, engine: str) -> None:
    """The rows that an overwrite removes are those of the merge engine, as deletes; then come the new ones."""
    oracle = oracles["1.4.2"]
    producer = "none" if engine in ("deduplicate", "first-row") else "input"
    table_of(oracle, tmp_path, engine, **{"changelog-producer": producer})
    options = {"streaming-read-overwrite": "true"}
    found, want = ours(tmp_path, "d.t", 1, **options), theirs(oracle, tmp_path, "d.t", 1, **options)
    assert any(row["_kind"] == "-D" and row["k"] == 1 for row in want[-2]["rows"])
    # Java does not say which snapshot a plan of replaced files is of.
    for plan in (*found, *want):
        plan["snapshots"] = []
    assert in_partitions(found) == in_partitions(want)


def test_overwrites_do_not_replace_what_vectors_deleted(oracles: dict[str, Oracle], tmp_path: Path) -> None:
    """A compaction drops a delete and marks the row below. An overwrite removes the rows that Java reads before
    it; the streams of Java 1.4.2 and 2.0.0 delete the marked row once more, because their plans of overwrites
    have no deletion vectors (`SnapshotReaderImpl.toIncrementalPlan`).
    """
    oracle = oracles["1.4.2"]
    spec = {
        "columns": ["p STRING NOT NULL", "k INT NOT NULL", "a INT", "b STRING"],
        "partitionKeys": ["p"],
        "primaryKeys": ["p", "k"],
        "options": {"bucket": "1", "write-only": "true", "deletion-vectors.enabled": "true"},
    }
    oracle.create(tmp_path, "d.t", spec)
    catalog = load_catalog(str(tmp_path))
    oracle.write(tmp_path, "d.t", FIRST)
    compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), catalog)
    oracle.write(tmp_path, "d.t", STEPS[3][1])
    compact.run(compact.Job(table="d.t", options=run_limit(1)), catalog)
    table = catalog.load_table("d.t")
    latest = table.latest_snapshot()
    assert latest is not None
    assert [one.place.cardinality for one in table._scanner.deletions(latest).values()] == [2]
    oracle.write(tmp_path, "d.t", STEPS[5][1], "--overwrite", "p=x")
    (plan,) = ours(tmp_path, "d.t", latest.id + 1, **{"streaming-read-overwrite": "true"})
    removed = [{k: v for k, v in row.items() if k != "_kind"} for row in plan["rows"] if row["_kind"] == "-D"]
    before = map(json.loads, oracle.read(tmp_path, "d.t", snapshot=latest.id))
    assert removed == [row for row in before if row["p"] == "x"]


def test_watermarks_of_event_times_bound_java(oracles: dict[str, Oracle], tmp_path: Path) -> None:
    """Java reads the watermarks that rows made, and ends its stream by them."""
    oracle = oracles["1.4.2"]
    oracle.create(tmp_path, "d.t", {"columns": ["k INT", "ts TIMESTAMP(3)"], "options": {"bucket": "-1"}})
    table = load_catalog(str(tmp_path)).load_table("d.t")
    write = table.new_stream_write("job", watermark="ts - 5 s")
    for number, second in enumerate((10, 3, 20)):
        times = pa.array([datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)], pa.timestamp("ms", "UTC")).cast(
            pa.timestamp("ms")
        )
        write.write(pa.RecordBatch.from_pydict({"k": pa.array([number], pa.int32()), "ts": times}))
        write.commit(number, [write.prepare_commit(number)])
    start = 1_767_225_600_000
    plans = theirs(oracle, tmp_path, "d.t", 1)
    assert [plan["watermark"] - start for plan in plans] == [5_000, 5_000, 15_000]
    bounded = theirs(oracle, tmp_path, "d.t", 1, **{"scan.bounded.watermark": str(start + 9_000)})
    assert [row["k"] for plan in bounded for row in plan["rows"]] == [0, 1]
