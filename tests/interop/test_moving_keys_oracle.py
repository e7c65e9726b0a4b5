"""Keys that move between partitions, where rows are not read before they are compacted; judged by Java's twin."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import compact
from lakecore.row.json_rows import batch_to_json, json_to_batch
from lakecore.table import Table
from lakecore.types.datatypes import RowType
from lakecore.write import session
from lakecore.write.buckets import cross_partition
from lakecore.write.buckets.key_places import KeyHashes, hash_keys
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

SUMS = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
CASES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "first-row": ({"merge-engine": "first-row"}, {"merge-engine": "first-row"}),
    "first-row, changes": ({"merge-engine": "first-row", "changelog-producer": "lookup"}, {"merge-engine": "first-row"}),
    "vectors": ({"deletion-vectors.enabled": "true"}, {}),
    "vectors, changes": ({"deletion-vectors.enabled": "true", "changelog-producer": "lookup"}, {}),
    "vectors, sums": ({"deletion-vectors.enabled": "true", **SUMS}, {**SUMS, "fields.p.aggregate-function": "first_value"}),
}  # fmt: skip
"""Options of the table, and of the twin: one bucket without partitions, where nothing has to move."""


WEAK = ("first-row", "vectors, sums")
"""Here many keys have the same first hash."""


def weak_prints(batch: pa.RecordBatch, key_type: RowType) -> KeyHashes:
    prints = hash_keys(batch, key_type)
    return KeyHashes(prints.high % np.uint64(3), prints.low)


def rows_of(table: Table) -> list[Any]:
    scan = table.scan()
    return by_key(
        json.loads(line) for batch in scan.to_batches() for line in batch_to_json(batch, scan.row_type, "+I")
    )


def by_key(rows: Any) -> list[Any]:
    return sorted(({**row, "_kind": "+I"} for row in rows), key=lambda row: row["k"])


@pytest.mark.parametrize("name", CASES)
def test_a_key_is_in_one_partition_whether_compacted_or_not(
    name: str, oracles: dict[str, Oracle], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in WEAK:
        monkeypatch.setattr(cross_partition, "hash_keys", weak_prints)
        monkeypatch.setattr(session, "hash_keys", weak_prints)
    dice, catalog = random.Random(name), load_catalog(tmp_path)
    java = oracles["2.0.0" if "changes" in name else "1.4.2"]
    ours, theirs = CASES[name]
    shape = {"columns": ["k INT", "p STRING", "v INT"], "primaryKeys": ["k"]}
    more = {"bucket": "-1", "dynamic-bucket.target-row-num": "20", "write-only": "true"}
    catalog.create_table("d.t", {**shape, "partitionKeys": ["p"], "options": {**more, **ours}})
    java.create(tmp_path, "d.twin", {**shape, "options": {"bucket": "1", "write-only": "true", **theirs}})
    deletes = "merge-engine" not in ours
    for commit in range(8):
        rows = [
            {"k": dice.randrange(90), "p": dice.choice("abc"), "v": commit * 100 + i, "_kind": dice.choice(["+I", "+I", "-D"]) if deletes else "+I"}
            for i in range(30)
        ]  # fmt: skip
        table = catalog.load_table("d.t")
        table.write(json_to_batch(map(json.dumps, rows), table.schema.row_type))
        java.write(tmp_path, "d.twin", rows)
        if commit not in (1, 4, 5, 7):
            continue
        full = commit == 7
        strategy = compact.Strategy.FULL if full else compact.Strategy.UNIVERSAL
        job = compact.Job(table="d.t", strategy=strategy, commit_user="t", commit_identifier=commit)
        assert compact.run(job, catalog).error is None
        java.compact(tmp_path, "d.twin", full=full)
        wanted = by_key(java.call("read", tmp_path, "d.twin"))
        assert rows_of(catalog.load_table("d.t")) == wanted
        assert by_key(java.call("read", tmp_path, "d.t")) == wanted
    for judge in oracles.values():
        assert findings(judge.fsck(tmp_path, "d.t")) == set()
