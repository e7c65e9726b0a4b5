"""Changes against states, and against what Java reads: folding a stream gives every snapshot; intervals as Java."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

import lakecore
from lakecore.errors import LakeError, UnsupportedError
from lakecore.metadata.row_kind import RowKind
from lakecore.read.source.scan import Scan
from lakecore.row.json_rows import batch_to_json
from tests.support.golden import GoldenTable, golden_table, golden_tables
from tests.support.oracle import Oracle, OracleError

pytestmark = pytest.mark.slow


def told(scan: Scan, batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Rows in the oracle's spelling, with `_kind`."""
    return [
        {"_kind": RowKind(kind).symbol, **json.loads(line)}
        for batch in batches
        for kind, line in zip(
            batch.column("_VALUE_KIND").to_pylist(),
            batch_to_json(batch.select(list(scan.columns)), scan.row_type),
            strict=True,
        )
    ]


def lines(rows: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, ensure_ascii=False) for row in rows)


def folds(table: GoldenTable) -> bool:
    """Is the latest change of a key its row? Not where columns or engines say otherwise, or rows just go."""
    options, schemas = table.options, {snapshot["schemaId"] for snapshot in table.facts["snapshots"]}
    if "data-evolution.enabled" in options or len(schemas) != 1:
        return False
    if table.facts.get("streamFrom") != 1 or "record-level.expire-time" in options:
        return False
    if not table.facts["schema"]["primaryKeys"]:
        return options.get("deletion-vectors.enabled") != "true"
    if options.get("changelog-producer", "none") in ("lookup", "full-compaction"):
        return not any(snapshot["kind"] == "OVERWRITE" for snapshot in table.facts["snapshots"])
    plain = not {"sequence.field", "ignore-delete", "merge-engine"} & set(options)
    return plain and options.get("deletion-vectors.enabled") != "true" and options.get("bucket") != "-2"


FOLDED = [table for table in golden_tables() if folds(table)][::2]


def test_most_tables_are_folded() -> None:
    assert len(FOLDED) > 60


@pytest.mark.parametrize("table", FOLDED, ids=lambda table: table.name)
def test_a_folded_stream_is_every_snapshot(table: GoldenTable) -> None:
    schema = table.facts["schema"]
    keys = [*schema["partitionKeys"], *schema["primaryKeys"]] if schema["primaryKeys"] else []
    overwrite = "streaming-read-overwrite" if keys else "streaming-read-append-overwrite"
    producer = table.options.get("changelog-producer", "none")
    options = {overwrite: "true"} if producer in ("none", "input") and keys else {}
    catalog = lakecore.load_catalog(str(table.warehouse))
    reader = catalog.load_table(table.name)
    state: dict[str, dict[str, Any]] = {}
    kept = {snapshot["id"] for snapshot in table.facts["snapshots"]}
    overwritten = {s["id"] for s in table.facts["snapshots"] if s["kind"] == "OVERWRITE"}
    for changes in catalog.load_table(table.name, options).stream(snapshot=1):
        for number, row in enumerate(told(changes.rows, changes.to_batches())):
            key = json.dumps([row[name] for name in keys] or [changes.snapshot.id, number])
            if row.pop("_kind") in ("-U", "-D"):
                state.pop(key, None)
            else:
                state[key] = row
        if not keys and overwritten & set(range(1, changes.snapshot.id + 1)):
            return  # without a key nothing tells what was replaced
        if changes.snapshot.id not in kept:
            continue
        scan = reader.scan(snapshot=changes.snapshot.id)
        assert lines(state.values()) == lines(
            {name: row[name] for name in row if name != "_kind"}
            for row in told(scan, scan.to_batches(kinds=True))
        ), changes.snapshot.id


INTERVALS = ("g1.a_pk_dedup_b3_part", "g1.a_cl_lookup", "g1.a_meta_tags", "g1.a_meta_autotags", "g1.a_evo_pk_compact",
             "g3.h3_append_bucket", "g3.h3_dv_pk", "g3.h3_pk_first_row", "g3.h3_meta_watermark", "g3.h3_pk_postpone", "g1.a_append_data_evolution")  # fmt: skip


def intervals(table: GoldenTable) -> Iterable[dict[str, str]]:
    """Options of batch reads: intervals by id, tag and time, and the ways to travel that have options only."""
    snapshots = table.facts["snapshots"]
    first, middle, last = (snapshots[i]["id"] for i in (0, len(snapshots) // 2, -1))
    time = str(json.loads((table.path / "snapshot" / f"snapshot-{middle}").read_text())["timeMillis"])
    for mode in ("auto", "delta", "changelog", "diff"):
        start = first if mode == "diff" else first - 1
        yield {"incremental-between": f"{start},{last}", "incremental-between-scan-mode": mode}
        yield {"incremental-between-timestamp": f"0,{time}", "incremental-between-scan-mode": mode}
    tags = [tag["name"] for tag in table.facts["tags"]]
    for end in tags[1:]:
        yield {"incremental-between": f"{tags[0]},{end}"}
        yield {"incremental-between": f"{tags[0]},{end}", "incremental-between-tag-to-snapshot": "true"}
        yield {"incremental-to-auto-tag": end}
    for version in (str(middle), *tags[:1]):
        yield {"scan.version": version}
    yield {"scan.mode": "compacted-full"}
    yield {"scan.file-creation-time-millis": time}
    yield {"scan.creation-time-millis": time}
    for watermark in {snapshot["watermark"] for snapshot in snapshots} - {None}:
        yield {"scan.watermark": str(watermark)}


@pytest.mark.parametrize("name", INTERVALS)
def test_intervals_and_travel_by_options(name: str, oracle: Oracle, oracle2: Oracle) -> None:
    """By Java 2.0, for 1.4 reads no deltas of tables that skip level 0; 2.0 does not skip it in differences."""
    table = golden_table(name)
    for options in intervals(table):
        flags = [part for key, value in options.items() for part in ("--option", f"{key}={value}")]
        java = oracle if options.get("incremental-between-scan-mode") == "diff" else oracle2
        try:
            wanted = lines(java.call("read", table.warehouse, name, *flags))
        except OracleError:
            with pytest.raises(LakeError):
                lakecore.load_catalog(str(table.warehouse)).load_table(name, options).scan().plan()
            continue
        scan = lakecore.load_catalog(str(table.warehouse)).load_table(name, options).scan()
        if options.get("incremental-between-scan-mode") == "diff" and "data_evolution" in name:
            with pytest.raises(UnsupportedError):
                scan.plan()
            continue
        assert lines(told(scan, scan.to_batches(kinds=True))) == wanted, options


STARTS = (
    {"scan.mode": "latest-full"},
    {"scan.mode": "compacted-full"},
    {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"},
    {"scan.mode": "from-snapshot", "scan.snapshot-id": "1", "scan.bounded.watermark": "1500"},
)
STREAMS = (
    ("g1.a_cl_full", {}), ("g1.a_cl_lookup", {}), ("g1.a_dv_pk", {}), ("g3.h3_pk_partial_seqgroup", {}),
    ("g1.a_meta_watermark", {}), ("g3.h3_pk_postpone", {}), ("g1.a_dv_append", {}),
    ("g1.a_pk_overwrite", {"streaming-read-overwrite": "true"}),
    ("g3.h3_part_overwrite", {"streaming-read-append-overwrite": "true"}),
)  # fmt: skip


@pytest.mark.parametrize(("name", "more"), STREAMS, ids=[name for name, _ in STREAMS])
def test_streams_from_anywhere(name: str, more: dict[str, str], oracles: dict[str, Oracle]) -> None:
    table = golden_table(name)
    for start in STARTS:
        options = {**start, **more}
        flags = [part for key, value in options.items() for part in ("--option", f"{key}={value}")]
        at = ["--from-snapshot", start["scan.snapshot-id"]] if "scan.snapshot-id" in start else []
        plans = oracles[table.version].call(
            "stream", table.warehouse, name, "--mode", start["scan.mode"], *at, *flags
        )
        stream = lakecore.load_catalog(str(table.warehouse)).load_table(name, options).stream(as_written=True)
        found = [
            (changes.next_snapshot, lines(told(changes.rows, changes.to_batches())))
            for changes in stream
            if changes.parts
        ]
        assert found == [(plan["next"], lines(plan["rows"])) for plan in plans], options
