"""Statistics that lakecore makes: Java Paimon reads them as its own, with the bounds of every type."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lakecore
from lakecore.jobs import analyze
from tests.support.golden import golden_table
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["g1.a_types_append_parquet", "g3.h3_types_pk_parquet", "g1.a_dv_pk"])
def test_java_reads_our_statistics(name: str, tmp_path: Path, oracles: dict[str, Oracle]) -> None:
    golden = golden_table(name)
    java = oracles[golden.version]
    copy = golden.copy_to(tmp_path)
    before = findings(java.fsck(golden.warehouse, golden.name))
    lake = lakecore.load_catalog(str(copy.warehouse), **{"local.fsync": "false"})
    report = analyze.run(analyze.Job(table=name, columns=("all",)), lake)
    rows = java.read(copy.warehouse, name)
    (line,) = java.call("read", copy.warehouse, f"{name}$statistics")
    assert line["snapshot_id"] + 1 == report.snapshot
    assert line["mergedRecordCount"] == len(rows)
    (ours,) = lake.load_table(f"{name}$statistics").scan().to_arrow().to_pylist()
    assert json.loads(line["colstat"]) == json.loads(ours["colstat"])
    assert sorted(report.names) == sorted(json.loads(line["colstat"]))
    assert findings(java.fsck(copy.warehouse, name)) - before == set()
    parsed = [json.loads(row) for row in rows]
    for column, found in json.loads(line["colstat"]).items():
        values = [row[column] for row in parsed if row[column] is not None]
        assert found["nullCount"] == len(rows) - len(values), column
        assert found["distinctCount"] == len(set(map(str, values))), column
    java.write(copy.warehouse, name, map(json.loads, rows[:1]))
    assert java.call("read", copy.warehouse, f"{name}$statistics") == [line]
