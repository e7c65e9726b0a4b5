"""Tables that lakecore wrote, read by Java Paimon with filters: no statistic, dictionary or index may cost it a row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.format.parquet import layout
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.format.parquet.splice.reasons import SpliceReason
from lakecore.jobs import compact
from lakecore.row.json_rows import json_to_batch
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

ROWS = 15


def store(warehouse: Path, column: str, values: Sequence[Any], options: Mapping[str, str]) -> None:
    """Append a file with `ROWS` rows for each of the values."""
    definition = {"columns": ["id INT", f"v {column}"], "options": {"bucket": "-1", **options}}
    table = load_catalog(warehouse).create_table("d.t", definition)
    for number, value in enumerate(values):
        rows = [json.dumps({"id": number, "v": value})] * ROWS
        table.write(json_to_batch(rows, table.schema.row_type))


def ids(java: Oracle, warehouse: Path, *where: Any) -> list[int]:
    lines = canonical(java.call("read", warehouse, "d.t", "--where", json.dumps(where)))
    return sorted(json.loads(line)["id"] for line in lines)


@pytest.mark.parametrize("column", ["DECIMAL(18, 2)", "DECIMAL(19, 2)", "DECIMAL(38, 2)"])
def test_decimals_that_repeat(column: str, oracle: Oracle, tmp_path: Path) -> None:
    store(tmp_path, column, ["2.56", "-2.56", "0.00", None], {})
    for number, value in enumerate(["2.56", "-2.56", "0.00"]):
        assert ids(oracle, tmp_path, "=", "v", value) == [number] * ROWS
        assert ids(oracle, tmp_path, "in", "v", value, "7.00") == [number] * ROWS
        assert len(ids(oracle, tmp_path, "<>", "v", value)) == 2 * ROWS
    assert ids(oracle, tmp_path, "is null", "v") == [3] * ROWS
    assert not findings(oracle.fsck(tmp_path, "d.t"))


def test_a_compaction_writes_dictionaries_of_earlier_releases_anew(
    oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "MAX_COMPACT_DECIMAL", 38)
    store(tmp_path, "DECIMAL(19, 2)", ["2.56", "-2.56", "0.00"], {})
    assert ids(oracle, tmp_path, "=", "v", "2.56") == []  # the defect of these releases
    monkeypatch.undo()
    job = compact.Job(table="d.t", strategy=compact.Strategy.FULL, copy=CopyMode.ALL)
    report = compact.run(job, load_catalog(tmp_path))
    assert report.decoded_because == {SpliceReason.FIXED_DICTIONARIES.value: 3}
    assert ids(oracle, tmp_path, "=", "v", "2.56") == [0] * ROWS
    assert not findings(oracle.fsck(tmp_path, "d.t"))


@pytest.mark.parametrize("index", ["bitmap", "bsi", "range-bitmap", "bloom-filter"])
@pytest.mark.parametrize("threshold", ["1 b", "1 mb"], ids=["beside", "embedded"])
def test_indexes_of_files_without_a_value(index: str, threshold: str, oracle: Oracle, tmp_path: Path) -> None:
    options = {f"file-index.{index}.columns": "v", "file-index.in-manifest-threshold": threshold}
    store(tmp_path, "INT", [None, 7], options)
    assert ids(oracle, tmp_path, "is null", "v") == [0] * ROWS
    assert ids(oracle, tmp_path, "is not null", "v") == [1] * ROWS
    assert ids(oracle, tmp_path, "=", "v", 7) == [1] * ROWS
    assert ids(oracle, tmp_path, "not in", "v", 8, 9) == [1] * ROWS
    assert not findings(oracle.fsck(tmp_path, "d.t"))
