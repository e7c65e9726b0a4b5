"""A branch that stands in for missing partitions: lakecore reads what Java reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakecore
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.row.json_rows import batch_to_json
from tests.support.golden import canonical
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

SCHEMA = {
    "columns": ["p INT NOT NULL", "k INT NOT NULL", "v STRING"],
    "partitionKeys": ["p"],
    "primaryKeys": ["p", "k"],
    "options": {"bucket": "1", "write-only": "true"},
}


def row(p: int, k: int, v: str, kind: str = "+I") -> dict[str, Any]:
    return {"p": p, "k": k, "v": v, "_kind": kind}


def ours(warehouse: Path, **scan: Any) -> list[str]:
    found = lakecore.load_catalog(str(warehouse)).load_table("d.t").scan(**scan)
    return canonical(line for batch in found.to_batches() for line in batch_to_json(batch, found.row_type))


@pytest.fixture
def warehouse(tmp_path: Path, oracle: Oracle) -> Path:
    """Main has partitions 1 and 3 (all rows of 3 deleted), branch `b` has 1, 2 and 3."""
    oracle.create(tmp_path, "d.t", SCHEMA)
    oracle.write(tmp_path, "d.t", [row(1, 1, "main")])
    oracle.call("create-branch", tmp_path, "d.t", "b")
    oracle.write(tmp_path, "d.t", [row(p, k, "branch") for p in (1, 2, 3) for k in (1, 2)], "--branch", "b")
    oracle.write(tmp_path, "d.t", [row(3, 1, "gone"), row(3, 1, "gone", "-D")])
    oracle.write(tmp_path, "d.t", [row(1, 2, "later")])
    return tmp_path


@pytest.mark.parametrize("key", ["scan.fallback-branch", "scan.primary-branch"])
def test_missing_partitions_come_from_the_branch(warehouse: Path, oracle: Oracle, key: str) -> None:
    assert len(ours(warehouse)) == 2
    oracle.call("alter", warehouse, "d.t", json.dumps([{"op": "set", "key": key, "value": "b"}]))
    latest = oracle.read(warehouse, "d.t")
    assert ours(warehouse) == latest
    assert ours(warehouse, where="p = 2") == [line for line in latest if '"p": 2' in line]
    assert ours(warehouse, where="v = 'main'") == [line for line in latest if '"main"' in line]
    for snapshot in (1, 2, 3):
        assert ours(warehouse, snapshot=snapshot) == oracle.read(warehouse, "d.t", snapshot=snapshot)
    table = lakecore.load_catalog(str(warehouse)).load_table("d.t")
    assert len(table.with_options({key: ""}).scan().to_arrow()) == 2
    with pytest.raises(UnsupportedError, match=key):
        table.stream()
    oracle.call("alter", warehouse, "d.t", json.dumps([{"op": "add", "name": "w", "type": "INT"}]))
    with pytest.raises(InvalidInputError, match="have different columns"):
        ours(warehouse)
