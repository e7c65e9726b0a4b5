"""System tables of golden tables show what Java's show: all columns, in Java's spelling."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

import lakecore
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.row.json_rows import batch_to_json
from lakecore.system.system_table import SYSTEM_TABLES
from tests.support.golden import GoldenTable, golden_table, golden_tables
from tests.support.oracle import Oracle, OracleError

pytestmark = pytest.mark.slow

KINDS = ("+I", "-U", "-U", "+U", "-D")
NEWER = {
    "snapshots": ("operation",),
    "partitions": ("total_buckets", "done", "deleted_record_count"),
    "table_indexes": ("row_range_start", "row_range_end", "index_field_id", "index_field_name"),
}  # columns that Paimon 2.0 added
CHOSEN = [
    table for i, table in enumerate(golden_tables()) if i % 31 == 5 or "_meta_" in table.name
    or table.table[1:] in ("_evo_pk_compact", "_part_special", "_pk_agg", "_dv_pk", "_types_pk_parquet", "_append_row_tracking")
]  # fmt: skip


def shown(kind: str, row: dict[str, Any], version: str) -> str:
    """Bytes, which Java shows as object ids, and the order of a hash map do not count."""
    row = {name: value for name, value in row.items() if name != "_kind"}
    for name in NEWER.get(kind, ()) if version == "1.4.2" else ():
        row.pop(name, None)
    for name in ("min_key", "max_key", "min_value_stats", "max_value_stats"):
        if row.get(name):
            row[name] = re.sub(r"\[B@[0-9a-f]+|0x[0-9a-f]*", "BYTES", row[name])
    if kind == "schemas":
        row["options"] = json.dumps(json.loads(row["options"]), sort_keys=True)
    if kind == "aggregation_fields":
        for name in ("function", "function_options"):
            row[name] = str(sorted(row[name].strip("[]").split(", ")))
    return json.dumps(row, sort_keys=True, ensure_ascii=False)


def ours(table: GoldenTable, kind: str, options: dict[str, str]) -> list[str]:
    found = lakecore.load_catalog(str(table.warehouse)).load_table(f"{table.name}${kind}", options)
    scan = found.scan()
    lines = (line for batch in scan.to_batches() for line in batch_to_json(batch, scan.row_type))
    return sorted(shown(kind, json.loads(line), table.version) for line in lines)


def javas(java: Oracle, table: GoldenTable, kind: str, options: dict[str, str]) -> list[str]:
    flags = [part for key, value in options.items() for part in ("--option", f"{key}={value}")]
    rows = java.call("read", table.warehouse, f"{table.name}${kind}", *flags)
    return sorted(shown(kind, row, table.version) for row in rows)


@pytest.mark.parametrize("table", CHOSEN, ids=lambda table: table.name)
def test_every_system_table(table: GoldenTable, oracles: dict[str, Oracle]) -> None:
    for kind in SYSTEM_TABLES:
        if kind == "row_tracking" and table.options.get("row-tracking.enabled") != "true":
            with pytest.raises(InvalidInputError, match=r"row-tracking\.enabled is not set"):
                ours(table, kind, {})
        else:
            assert ours(table, kind, {}) == javas(oracles[table.version], table, kind, {}), kind


def test_files_of_the_past(oracles: dict[str, Oracle]) -> None:
    """Their statistics are of the columns of that time."""
    table = golden_table("g3.h3_evo_pk_compact")
    for snapshot in [one["id"] for one in table.facts["snapshots"]]:
        options = {"scan.snapshot-id": str(snapshot)}
        assert ours(table, "files", options) == javas(oracles[table.version], table, "files", options), (
            snapshot
        )


@pytest.mark.parametrize("name", ["g1.a_cl_lookup_dedup", "g3.h3_cl_lookup_dedup", "g3.h3_pk_dedup_b3_part"])
def test_changes_as_rows(name: str, oracles: dict[str, Oracle]) -> None:
    table = golden_table(name)
    last = table.facts["snapshots"][-1]["id"]
    for mode in ("auto", "delta", "diff"):
        options = {"incremental-between": f"1,{last}", "incremental-between-scan-mode": mode}
        java = oracles[table.version]
        assert ours(table, "audit_log", options) == javas(java, table, "audit_log", options), mode
        if mode != "diff":
            assert ours(table, "binlog", options) == javas(java, table, "binlog", options), mode
    with pytest.raises(OracleError):
        javas(oracles[table.version], table, "binlog", options)
    with pytest.raises(UnsupportedError, match="audit_log"):
        ours(table, "binlog", options)


def test_sequence_numbers(oracle: Oracle, tmp_path: Path) -> None:
    """Java 1.4 fails to read $binlog of an interval then; all else agrees."""
    options = {"bucket": "1", "write-only": "true", "table-read.sequence-number.enabled": "true"}
    schema = {"columns": ["k INT NOT NULL", "v STRING"], "primaryKeys": ["k"], "partitionKeys": []}
    oracle.create(tmp_path, "d.t", {**schema, "options": options})
    oracle.write(tmp_path, "d.t", [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    oracle.write(tmp_path, "d.t", [{"k": 1, "v": "c", "_kind": "+U"}, {"k": 2, "v": "b", "_kind": "-D"}])
    table = GoldenTable("1.4.2", "d", "t", tmp_path, tmp_path)
    for kind, interval in (("audit_log", {}), ("audit_log", {"incremental-between": "0,2"}), ("binlog", {})):
        found = ours(table, kind, interval)
        assert found == javas(oracle, table, kind, interval)
        assert all("_SEQUENCE_NUMBER" in line for line in found)


def test_whatever_follows_an_update_before_is_its_other_half(
    oracles: dict[str, Oracle], tmp_path: Path
) -> None:
    """In the splits of a batch read, across files of any overlap; and differences tell written numbers."""
    java, _ = oracles.values()
    options = {"bucket": "2", "changelog-producer": "input", "write-only": "true", "target-file-size": "1 kb"}
    shown_too = {"table-read.sequence-number.enabled": "true"}
    schema = {"columns": ["k INT NOT NULL", "v STRING"], "primaryKeys": ["k"], "partitionKeys": []}
    java.create(tmp_path, "d.t", {**schema, "options": options})
    java.create(tmp_path, "d.n", {**schema, "options": options | shown_too})
    dice = random.Random(3)
    for count in (90, 60, 40, 5):
        rows = [
            {"k": dice.randrange(50), "v": "v" * dice.randrange(60), "_kind": dice.choice(KINDS)}
            for _ in range(count)
        ]
        for name in ("d.t", "d.n"):
            java.write(tmp_path, name, rows)
    table, numbered = (GoldenTable(java.version, "d", name, tmp_path, tmp_path) for name in "tn")
    for size in ("1 b", "1500 b", "128 mb"):
        for mode in ("delta", "changelog"):
            asked = {"incremental-between": "0,4", "incremental-between-scan-mode": mode}
            sizes = {"source.split.target-size": size, "source.split.open-file-cost": "1 b"}
            found = ours(table, "binlog", asked | sizes)
            for judge in oracles.values():
                assert found == javas(judge, table, "binlog", asked | sizes), (size, mode)
    asked = {"incremental-between": "1,4", "incremental-between-scan-mode": "diff"}
    assert ours(numbered, "audit_log", asked) == javas(java, numbered, "audit_log", asked)


def test_files_that_reads_skip_and_files_elsewhere(oracle: Oracle, tmp_path: Path) -> None:
    options = {
        "bucket": "1",
        "write-only": "true",
        "deletion-vectors.enabled": "true",
        "data-file.external-paths": f"file://{tmp_path}/elsewhere",
        "data-file.external-paths.strategy": "round-robin",
    }
    schema = {"columns": ["k INT NOT NULL", "p INT NOT NULL"], "primaryKeys": ["k", "p"]}
    oracle.create(tmp_path, "d.t", {**schema, "partitionKeys": ["p"], "options": options})
    for p in (1, 2):
        oracle.write(tmp_path, "d.t", [{"k": 1, "p": 1}, {"k": 2, "p": p}])
    table = GoldenTable("1.4.2", "d", "t", tmp_path, tmp_path)
    for kind in ("files", "file_key_ranges"):
        assert ours(table, kind, {}) == javas(oracle, table, kind, {})
    found = ours(table, "partitions", {})
    assert found == javas(oracle, table, "partitions", {})
    assert sorted(json.loads(line)["record_count"] for line in found) == [1, 3]


@pytest.mark.parametrize("name", ["tables", "partitions", "all_table_options"])
def test_the_whole_warehouse(name: str, oracle: Oracle) -> None:
    table = golden_table("g1.a_cl_input")
    scan = lakecore.load_catalog(str(table.warehouse)).load_table(f"sys.{name}").scan()
    lines = (line for batch in scan.to_batches() for line in batch_to_json(batch, scan.row_type))
    wanted = oracle.call("read", table.warehouse, f"sys.{name}")
    assert sorted(shown(name, json.loads(line), "") for line in lines) == sorted(
        shown(name, row, "") for row in wanted
    )
