"""Tables that the golden sets have none of, read, written and compacted as Java does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs.compact import Job, ProofMode, Strategy, run
from lakecore.row.json_rows import batch_to_json, json_to_batch
from lakecore.table import Table
from tests.support.golden import canonical
from tests.support.oracle import Oracle, OracleError

pytestmark = pytest.mark.slow


def rows_of(table: Table, **at: Any) -> list[str]:
    scan = table.scan(**at)
    return canonical(line for batch in scan.to_batches() for line in batch_to_json(batch, scan.row_type))


def put(table: Table, rows: list[dict[str, Any]]) -> None:
    table.write(json_to_batch(map(json.dumps, rows), table.schema.row_type))


REQUIRED = {
    "r": ("ROW<a INT NOT NULL, b STRING>", {"a": 1, "b": None}),
    "q": ("ARRAY<ROW<a BOOLEAN NOT NULL, b ARRAY<INT> NOT NULL>>", [{"a": True, "b": [1, None]}, None]),
    "m": ("MAP<INT, ROW<v STRING NOT NULL, w ROW<x DATE NOT NULL> NOT NULL>>",
          [[1, {"v": "x", "w": {"x": "2024-02-29"}}], [2, None]]),
    "v": ("ROW<p VARIANT NOT NULL>", {"p": {"a": 1}}),
}  # fmt: skip


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_rows_that_are_null_though_their_fields_must_not_be(
    oracle2: Oracle, tmp_path: Path, file_format: str
) -> None:
    """Merge engines and lookups take values from nulls; change logs make lists of them."""
    kinds = {name: pair for name, pair in REQUIRED.items() if name != "v" or file_format == "parquet"}
    columns = ["k INT NOT NULL", *(f"{name} {kind}" for name, (kind, _) in kinds.items())]
    options = {"bucket": "1", "file.format": file_format, "merge-engine": "partial-update",
               "changelog-producer": "lookup", "write-only": "true"}  # fmt: skip
    oracle2.create(tmp_path, "d.t", {"columns": columns, "primaryKeys": ["k"], "options": options})
    catalog = load_catalog(tmp_path)
    table = catalog.load_table("d.t")
    filled = {name: value for name, (_, value) in kinds.items()}
    for k, others in ((1, {}), (2, {}), (2, filled), (1, {"r": filled["r"]}), (3, filled)):
        put(table, [{"k": k, **others}, {"k": 4}])
    run(Job(table="d.t", strategy=Strategy.FULL, proof=ProofMode.FULL), catalog)
    assert rows_of(table) == oracle2.read(tmp_path, "d.t")
    assert [json.loads(line)["q"] for line in rows_of(table)] == [None, filled["q"], filled["q"], None]
    told = rows_of(catalog.load_table("d.t$binlog"))
    assert told == oracle2.read(tmp_path, "d.t$binlog")


def test_the_past_is_merged_by_the_options_of_today(oracles: dict[str, Oracle], tmp_path: Path) -> None:
    """As Java travels: columns of then, options of now, as long as these name no column that is new."""
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum",
               "write-only": "true"}  # fmt: skip
    schema = {"columns": ["k INT", "n INT"], "primaryKeys": ["k"], "options": options}
    old = oracles["1.4.2"]
    old.create(tmp_path, "d.t", schema)
    catalog = load_catalog(tmp_path)
    for n in (5, 3, 4):
        old.write(tmp_path, "d.t", [{"k": 1, "n": n}])
    changes: list[tuple[dict[str, str], int]] = [
        ({"op": "set", "key": "fields.n.aggregate-function", "value": "max"}, 5),
        ({"op": "add", "name": "more", "type": "INT"}, 5),
        ({"op": "set", "key": "fields.more.aggregate-function", "value": "min"}, 12),
    ]
    for change, n in changes:
        old.call("alter", tmp_path, "d.t", json.dumps([change]))
        seen = rows_of(catalog.load_table("d.t"), snapshot=3)
        assert [json.loads(line)["n"] for line in seen] == [n]
        for java in oracles.values():
            if n == 5:
                assert java.read(tmp_path, "d.t", snapshot=3) == seen
            else:
                with pytest.raises(OracleError):
                    java.read(tmp_path, "d.t", snapshot=3)
