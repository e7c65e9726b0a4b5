"""Java reads streams of commits, checks the files, and goes on with the table; Java's own commits of the same user
are known to a restored stream.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakecore
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings

TABLES: dict[str, dict[str, Any]] = {
    "unaware": {"options": {}},
    "bucketed": {"options": {"bucket": "2", "bucket-key": "k"}},
    "fixed": {"primaryKeys": ["k"], "options": {"bucket": "2", "changelog-producer": "input"}},
    "dynamic": {"primaryKeys": ["k"], "options": {"bucket": "-1"}},
    "sum": {
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    },
}


def batch(number: int) -> list[dict[str, int]]:
    return [{"k": k, "v": 100 * number + k} for k in range(number, number + 4)]


def expected(name: str, numbers: list[int]) -> list[str]:
    rows = [row for number in numbers for row in batch(number)]
    if name in ("unaware", "bucketed"):
        return canonical(rows)
    found: dict[int, int] = {}
    for row in rows:
        found[row["k"]] = row["v"] + (found.get(row["k"], 0) if name == "sum" else 0)
    return canonical([{"k": k, "v": v} for k, v in found.items()])


@pytest.mark.parametrize("name", TABLES)
def test_what_java_reads(oracle: Oracle, tmp_path: Path, name: str) -> None:
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})
    table = catalog.create_table("d.t", {"columns": ["k INT", "v INT"], **TABLES[name]})
    write = table.new_stream_write("job")
    waiting = {}
    for number in range(3):
        write.write(pa.RecordBatch.from_pylist(batch(number)))
        waiting[number] = [write.prepare_commit(number)]
        if name == "dynamic":
            write.commit(number, waiting[number])
    for _ in range(2):
        table.new_stream_write("job").filter_and_commit(waiting)
    assert oracle.read(tmp_path, "d.t") == expected(name, [0, 1, 2])
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()
    oracle.write(tmp_path, "d.t", batch(3), "--commit-user", "job", "--identifier", 3)
    restored = table.new_stream_write("job")
    restored.write(pa.RecordBatch.from_pylist(batch(4)))
    assert restored.commit(3, [restored.prepare_commit(3)]).duplicate
    assert oracle.read(tmp_path, "d.t") == expected(name, [0, 1, 2, 3])
    restored.write(pa.RecordBatch.from_pylist(batch(4)))
    restored.commit(4, [restored.prepare_commit(4)])
    assert oracle.read(tmp_path, "d.t") == expected(name, [0, 1, 2, 3, 4])
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()
