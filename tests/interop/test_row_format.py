"""Data files of format `row`, which Java 2.0 writes: read, checked and compacted."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import lakecore
from lakecore.errors import UnsupportedError
from lakecore.jobs import compact
from lakecore.row.json_rows import batch_to_json
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from tests.support.golden import canonical
from tests.support.lake import live_files
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

COLUMNS = ["k INT NOT NULL", "b BOOLEAN", "i8 TINYINT", "i16 SMALLINT", "i64 BIGINT", "f4 FLOAT", "f8 DOUBLE",
    "d9 DECIMAL(9, 2)", "d38 DECIMAL(38, 10)", "c CHAR(3)", "s STRING", "y BYTES", "dt DATE", "tm TIME(3)",
    "t3 TIMESTAMP(3)", "t6 TIMESTAMP(6)", "t9 TIMESTAMP(9)", "l TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "a ARRAY<INT>", "at ARRAY<STRING>", "aa ARRAY<ARRAY<ROW<x INT, y STRING>>>", "m MAP<STRING, BIGINT>",
    "r ROW<x INT, y ROW<z STRING, u DOUBLE>, w ARRAY<TIMESTAMP(9)>>", "v VARIANT", "e VECTOR<FLOAT, 3>",
    "mu MULTISET<STRING>"]  # fmt: skip
FULL: dict[str, Any] = {
    "b": True, "i8": -8, "i16": -300, "i64": 2**40, "f4": 1.5, "f8": -2.25, "d9": "-1234567.89",
    "d38": "-1234567890123456789012345678.0123456789", "c": "abc", "s": "é€𝄞", "y": "0x00ff", "dt": "1969-12-31",
    "tm": "23:59:59.999", "t3": "1969-12-31 23:59:59.999", "t6": "1900-01-01 00:00:00.000001",
    "t9": "1969-12-31 23:59:59.999999999", "l": "2024-05-06 07:08:09.123456Z", "a": [1, None, -3, 4, 5, 6, 7, None, 9],
    "at": ["", None, "text" * 50], "aa": [[], None, [{"x": 1, "y": None}, None], [{"x": None, "y": "q"}]],
    "m": [["a", 1], ["b", None]], "r": {"x": None, "y": {"z": "deep", "u": None}, "w": ["2024-01-01 00:00:00.000000001", None]},
    "v": '{"a":[1,"x"]}', "e": [1.0, -2.5, 0.0], "mu": [["p", 2], ["q", 1]]}  # fmt: skip
TABLES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "append": ((), {"bucket": "-1", "deletion-vectors.enabled": "true", "file.block-size": "1 kb"}),
    "keyed": (("k",), {"bucket": "1", "write-only": "true", "file-index.bloom-filter.columns": "i64"}),
}  # fmt: skip
CHANGES = [{"op": "type", "name": "i16", "type": "INT"}, {"op": "rename", "name": "s", "to": "text"},
    {"op": "drop", "name": "b"}, {"op": "add", "name": "n", "type": "INT", "first": True}]  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_read_checked_and_compacted(name: str, oracle2: Oracle, tmp_path: Path) -> None:
    """Java 2.0.0 loses rows where it merges such files, and takes the columns of a lone file of a table with a
    key for others: there the rows that it was given are the judge, and parquet files come out of a compaction.
    """
    keys, options = TABLES[name]
    lake, full = lakecore.load_catalog(str(tmp_path)), f"d.{name}"
    schema = {"columns": COLUMNS, "primaryKeys": list(keys), "options": {"file.format": "row"} | options}
    oracle2.create(tmp_path, full, schema)
    given = [row(k) for first in (0, 30) for k in range(first, first + 40)]
    oracle2.write(tmp_path, full, given[:40])
    oracle2.write(tmp_path, full, given[40:])
    oracle2.call("alter", tmp_path, full, json.dumps(CHANGES))
    later = [{"k": k, "n": k, "i16": 70000, "text": "new"} for k in (3, 90)]
    oracle2.write(tmp_path, full, later)
    table = lake.load_table(full)
    if keys:
        twin = {"columns": COLUMNS, "primaryKeys": ["k"], "options": {"bucket": "1"}}
        oracle2.create(tmp_path, "d.twin", twin)
        oracle2.write(tmp_path, "d.twin", given)
        oracle2.call("alter", tmp_path, "d.twin", json.dumps(CHANGES))
        oracle2.write(tmp_path, "d.twin", later)
        wanted = oracle2.read(tmp_path, "d.twin")
    else:
        gone = tmp_path / "gone.jsonl"
        gone.write_text('{"k": 2}\n{"k": 35}\n{"k": 90}\n')
        oracle2.call("delete-rows", tmp_path, full, gone)
        wanted = oracle2.read(tmp_path, full)
    assert read(table) == wanted
    news = [line for line in map(json.loads, wanted) if line["text"] == "new"]
    found = read(table, where="text = 'new'", columns=["text", "n"])
    assert found == canonical({"n": line["n"], "text": line["text"]} for line in news)
    report = fsck(table._stores.file_io, table._stores.paths, now_ms=int(time.time() * 1000), read_data=True)
    assert report.damage == ()
    job = compact.Job(table=full, strategy=compact.Strategy.FULL, proof=compact.ProofMode.FULL)
    if keys:
        with pytest.raises(UnsupportedError, match=r"set file.format=parquet"):
            compact.run(job, lake)
        lake.alter_table(full, [{"op": "set", "key": "file.format", "value": "parquet"}])
    assert compact.run(job, lake).snapshot is not None
    assert read(lake.load_table(full)) == wanted == oracle2.read(tmp_path, full)
    kinds = {file.file_name.rsplit(".", 1)[-1] for file in live_files(lake.load_table(full))}
    assert kinds == {"parquet" if keys else "row"}
    damaged = [problem for problem in oracle2.fsck(tmp_path, full)["errors"] if "cannot read" not in problem]
    assert damaged == []


def row(k: int) -> dict[str, Any]:
    """Whole, nearly empty, or with every third value."""
    names = list(FULL)
    kept = {0: names, 1: names[k % 25 : k % 25 + 1]}.get(k % 3, names[k % 7 :: 3])
    return {"k": k} | {name: FULL[name] for name in kept}


def read(table: Table, **scan: Any) -> list[str]:
    found = table.scan(**scan)
    return canonical(line for batch in found.to_batches() for line in batch_to_json(batch, found.row_type))
