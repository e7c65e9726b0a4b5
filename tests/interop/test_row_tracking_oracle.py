"""Row ids, judged by Java Paimon: written, deleted around, and carried through compactions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore import load_catalog
from lakecore.errors import UnsupportedError
from lakecore.jobs.compact import Job, OrderStrategy, Strategy, run
from tests.support.golden import golden_tables, set_option
from tests.support.oracle import Oracle, OracleError, findings

pytestmark = pytest.mark.slow

OPTIONS = {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true", "write-only": "true"}


def tracked(oracle: Oracle, warehouse: Path, name: str) -> list[dict[str, Any]]:
    rows = [json.loads(row) for row in oracle.read(warehouse, f"{name}$row_tracking")]
    return sorted(rows, key=lambda row: row["_ROW_ID"])


@pytest.mark.parametrize("kind", ["parquet", "orc"])  # Java cannot read ids beside avro files
def test_ids_go_on_and_stay(kind: str, oracles: dict[str, Oracle], tmp_path: Path) -> None:
    java, newer = oracles.values()
    options = {**OPTIONS, "file.format": kind, "target-file-size": "2 kb"}
    java.create(tmp_path, "d.t", {"columns": ["k INT", "v STRING"], "options": options})
    table = load_catalog(str(tmp_path)).load_table("d.t")
    for start in range(0, 30, 10):
        keys = pa.array(range(start, start + 10), pa.int32())
        table.append(pa.table({"k": keys, "v": [f"ours{k}" for k in range(10)]}))
        java.write(tmp_path, "d.t", [{"k": 100 + start + k, "v": "java"} for k in range(5)])
    rows = tracked(java, tmp_path, "d.t")
    assert [row["_ROW_ID"] for row in rows] == list(range(45))
    assert [row["_SEQUENCE_NUMBER"] for row in rows] == [n for s in (1, 3, 5) for n in [s] * 10 + [s + 1] * 5]
    assert table.delete("k = 3 or k = 104 or v = 'ours7'").rows == 5
    left = [row for row in rows if row["k"] not in (3, 104) and row["v"] != "ours7"]
    assert tracked(java, tmp_path, "d.t") == left
    for free, strategy in ((45, Strategy.FULL), (51, Strategy.UNIVERSAL)):
        assert run(Job(table="d.t", strategy=strategy), load_catalog(str(tmp_path))).error is None
        for oracle in (java, newer):
            assert tracked(oracle, tmp_path, "d.t") == left
        more = pa.array(range(500, 506), pa.int32())
        table.append(pa.table({"k": more}))
        left = tracked(java, tmp_path, "d.t")
        assert [row["_ROW_ID"] for row in left[-6:]] == list(range(free, free + 6))
    java.write(tmp_path, "d.t", [{"k": 9, "v": "last"}])
    assert tracked(java, tmp_path, "d.t")[-1]["_ROW_ID"] == 57
    assert findings(java.fsck(tmp_path, "d.t")) == set()


@pytest.mark.parametrize("name", ["g1.a_append_row_tracking", "g3.h3_append_row_tracking"])
def test_a_table_of_java_keeps_its_ids(name: str, oracles: dict[str, Oracle], tmp_path: Path) -> None:
    golden = next(table for table in golden_tables() if table.name == name).copy_to(tmp_path)
    before = tracked(oracles[golden.version], tmp_path, name)
    report = run(Job(table=name, strategy=Strategy.FULL), load_catalog(str(tmp_path)))
    assert report.picks_done
    for oracle in oracles.values():
        assert tracked(oracle, tmp_path, name) == before


def test_rows_that_a_paimon_without_row_ids_wrote(oracles: dict[str, Oracle], tmp_path: Path) -> None:
    """As Paimon 1.1 leaves such a table. Java fails where it would need the ids, and so do we, in words."""
    java, newer = oracles.values()
    java.create(tmp_path, "d.t", {"columns": ["k INT", "v STRING"], "options": {"write-only": "true"}})
    for k in range(6):
        java.write(tmp_path, "d.t", [{"k": k, "v": "old"}])
    set_option(tmp_path / "d.db" / "t", "row-tracking.enabled", "true")
    java.write(tmp_path, "d.t", [{"k": 6, "v": "java"}])
    catalog = load_catalog(str(tmp_path))
    table = catalog.load_table("d.t")
    table.append(pa.table({"k": pa.array([7], pa.int32()), "v": ["ours"]}))
    for oracle in (java, newer):
        assert len(oracle.read(tmp_path, "d.t")) == 8
        for refused in (
            lambda judge: judge.read(tmp_path, "d.t$row_tracking"),
            lambda judge: judge.compact(tmp_path, "d.t", full=True),
        ):
            with pytest.raises(OracleError, match=r"NullPointerException.*firstRowId"):
                refused(oracle)
    assert table.scan().to_arrow()["k"].to_pylist() == list(range(8))
    with pytest.raises(UnsupportedError, match="its rows have no row ids"):
        catalog.load_table("d.t$row_tracking").scan().to_arrow()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "d.db").rglob("*") if path.is_file()}
    for job in (Job(table="d.t"), Job(table="d.t", order_strategy=OrderStrategy.ZORDER, order_by=("k", "v"))):
        with pytest.raises(UnsupportedError, match=r"have no row ids.*overwrite"):
            run(job, catalog)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    table.overwrite(table.scan().to_arrow())
    run(Job(table="d.t", strategy=Strategy.FULL), catalog)
    for oracle in (java, newer):
        assert [row["k"] for row in tracked(oracle, tmp_path, "d.t")] == list(range(8))
        assert findings(oracle.fsck(tmp_path, "d.t")) == set()


def without_ages(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Joined rows take the highest sequence number of their file."""
    return [{name: value for name, value in row.items() if name != "_SEQUENCE_NUMBER"} for row in rows]


def test_rows_beside_columns_that_java_added(oracles: dict[str, Oracle], tmp_path: Path) -> None:
    """Whole rows of ours go on after files of some columns."""
    for name in ("g1.a_append_data_evolution", "g3.h3_append_data_evolution"):
        golden = next(table for table in golden_tables() if table.name == name).copy_to(tmp_path)
        java = oracles[golden.version]
        before = tracked(java, tmp_path, name)
        table = load_catalog(str(tmp_path)).load_table(name)
        more = [
            {**{k: v for k, v in row.items() if k[0] != "_"}, "a": f"ours{n}"}
            for n, row in enumerate(before[:7])
        ]
        table.append(pa.Table.from_pylist(more, schema=table.scan().schema))
        after = tracked(java, tmp_path, name)
        assert after[:-7] == before
        first = before[-1]["_ROW_ID"] + 1
        assert [row["_ROW_ID"] for row in after[-7:]] == list(range(first, first + 7))
        assert [row["a"] for row in after[-7:]] == [row["a"] for row in more]
        assert table.scan().to_arrow().num_rows == len(after)
        for _ in range(2):
            report = run(Job(table=name, strategy=Strategy.FULL), load_catalog(str(tmp_path)))
            assert report.error is None
            for oracle in oracles.values():
                assert without_ages(tracked(oracle, tmp_path, name)) == without_ages(after)
            assert report.after.files == 1
            assert run(Job(table=name), load_catalog(str(tmp_path))).nothing_to_do
            java.write(tmp_path, name, [{k: v for k, v in after[0].items() if k[0] != "_"}])
            after = tracked(java, tmp_path, name)
        assert [row["_ROW_ID"] for row in after] == list(range(len(after)))
        assert findings(java.fsck(tmp_path, name)) <= findings(golden.facts["fsck"])
