"""Statistics that lakecore makes: Java Paimon reads them as its own, with the bounds of every type."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import lakecore
from lakecore.jobs import analyze
from lakecore.maintain.analyze.statistics import Statistics
from tests.support.golden import golden_table
from tests.support.lake import put
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


GIVEN: dict[str, dict[str, str | int]] = {
    "b": {"distinctCount": 2, "min": "false", "max": "true", "nullCount": 0},
    "n": {"min": "-9", "max": "9223372036854775807", "avgLen": 8, "maxLen": 8},
    "d": {"min": "-0.50", "max": "12345678.25"},
    "f": {"min": "-1.5", "max": "NaN"},
    "day": {"min": "1969-12-31", "max": "2024-02-29"},
    "t": {"min": "2024-01-01 00:00:00", "max": "2024-01-01 12:30:00.125"},
    "s": {"distinctCount": 9223372036854775807, "min": 'a"\\ü', "max": "ž", "avgLen": 1, "maxLen": 3},
    "y": {"nullCount": 3},
}
STORED = {
    "day": {"min": "-1", "max": "19782"},
    "t": {"min": "2024-01-01 00:00:00.000", "max": "2024-01-01 12:30:00.125"},
}


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_java_reads_given_statistics(version: str, tmp_path: Path, oracles: dict[str, Oracle]) -> None:
    java, lake = oracles[version], lakecore.load_catalog(tmp_path / "wh", create_warehouse=True)
    types = "b BOOLEAN, n BIGINT, d DECIMAL(10, 2), f DOUBLE, day DATE, t TIMESTAMP(3), s STRING, y BYTES"
    columns = types.replace("10, 2", "10,2").split(", ")
    table = lake.create_table("d.t", {"columns": [one.replace(",", ", ") for one in columns]})
    put(table, [{"n": 1}], [{"n": 2}])
    assert table.statistics() is None
    given = Statistics(snapshot_id=1, schema_id=7, rows=1, size=0, columns=GIVEN)
    assert table.update_statistics(given) == 3
    (line,) = java.call("read", tmp_path / "wh", "d.t$statistics")
    counts = line["mergedRecordCount"], line["mergedRecordSize"]
    assert (line["snapshot_id"], line["schema_id"], counts) == (1, 0, (1, 0))
    ids = {field.name: field.id for field in table.schema.fields}
    expected = {name: {"colId": ids[name], **GIVEN[name], **STORED.get(name, {})} for name in GIVEN}
    assert json.loads(line["colstat"]) == expected
    stored = table.statistics()
    assert stored is not None
    assert stored.columns == expected
    assert table.update_statistics(replace(stored, size=5)) == 4  # what was read can be given
    (line,) = java.call("read", tmp_path / "wh", "d.t$statistics")
    assert (line["mergedRecordSize"], json.loads(line["colstat"])) == (5, expected)
    assert len(java.read(tmp_path / "wh", "d.t")) == 2
    assert findings(java.fsck(tmp_path / "wh", "d.t")) == set()
