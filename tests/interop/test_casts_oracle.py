"""Columns that became another type: what Java makes of their texts and of their longest decimals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import InvalidInputError
from lakecore.jobs import compact
from tests.interop.evolution import ours
from tests.support.golden import canonical
from tests.support.oracle import Oracle, OracleError

pytestmark = pytest.mark.slow

TEXTS = {
    "BOOLEAN": ["yes", "Y", "no", "n", "t", "F", "1", "FALSE"],
    "TINYINT": ["1.5", "-.5", ".", "+.", "00012", "-128.9", "127"],
    "INT": ["2147483647.", "-2147483648", "+1"],
    "FLOAT": ["1f", "-1.5D", "\t1 \n", "1\0", "16777217.0000000000001", "1e39", "NaN", "-Infinity"],
    "DOUBLE": ["1f", ".5e3", "1e400"],
    "DECIMAL(38, 0)": ["9" * 38, "-" + "9" * 38, "1" + "0" * 38, "\uff11\uff12", "0e99", "1e39", ".5", "1."],
    "DATE": [" 1 ", "1\t", "12", "-1", "2024-02", "2024 - 2 - 9", "2024-01-01 12:34", "0000-01-01"],
    "TIME(3)": [" 1", "12 ", "12", "12:34", "12:34:56.7895", "1:2:3.", "23:59:58.999a", "1:1:1. 5\t"],
    "TIMESTAMP(0)": ["2024-01-01 12:34:56.9", "-1", "0", "2023-02-29", "1969-12-31 23:59:59.9"],
    "TIMESTAMP(6)": ["2024-1-1 1:2:3.1234567", "-1", "1700000000000000", "2024-01-01 24:00:00"],
}
OTHER_TEXTS = {
    "BOOLEAN": [" 1", "on", ""],
    "TINYINT": ["128", "-129", "1.5.", "1e1"],
    "INT": [" 12 ", "-", "+", "", "2147483648", "\uff11"],
    "FLOAT": ["1_000", "inf", "nan", "1\xa0", "1L"],
    "DOUBLE": ["infinity", "\uff11"],
    "DECIMAL(38, 0)": [" 1", "1_0", "NaN", "."],
    "DATE": ["10000-01-01", "2023-02-29", "-2024-01-01", "2024-01-01T12:34:56", "1\xa0", ""],
    "TIME(3)": ["1:2:", "12h", ""],
    "TIMESTAMP(0)": ["10000-01-01", "2024-01-01 ", "2024-01-01 12:34", "2024-01-01 12:34:56Z", ""],
    "TIMESTAMP(6)": [" 1", "1970-00-01"],
}


@pytest.mark.parametrize("target", TEXTS)
@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_texts(version: str, target: str, oracles: dict[str, Oracle], tmp_path: Path) -> None:
    oracle = oracles[version]
    definition = {"columns": ["p INT", "k INT", "v STRING"], "partitionKeys": ["p"]}
    oracle.create(tmp_path, "d.t", {**definition, "options": {"bucket": "-1"}})
    read = [{"p": 0, "k": at, "v": text} for at, text in enumerate([*TEXTS[target], None])]
    refused = [{"p": 1 + at, "k": 0, "v": text} for at, text in enumerate(OTHER_TEXTS[target])]
    oracle.write(tmp_path, "d.t", [*read, *refused])
    oracle.call("alter", tmp_path, "d.t", json.dumps([{"op": "type", "name": "v", "type": target}]))
    table = load_catalog(tmp_path).load_table("d.t")
    rows = canonical(oracle.call("read", tmp_path, "d.t", "--where", json.dumps(["=", "p", 0])))
    assert ours(table, where="p = 0") == rows
    assert len(rows) == len(read)
    for row in refused:
        with pytest.raises(OracleError):
            oracle.call("read", tmp_path, "d.t", "--where", json.dumps(["=", "p", row["p"]]))
        with pytest.raises(InvalidInputError, match="is not a value of type"):
            ours(table, where=f"p = {row['p']}")


def test_decimals(oracle: Oracle, tmp_path: Path) -> None:
    oracle.create(tmp_path, "d.t", {"columns": ["k INT", "v DECIMAL(38, 2)"], "options": {"bucket": "-1"}})
    numbers = ["9" * 29 + ".00", "-" + "9" * 29 + ".49", "9" * 29 + ".50", "9" * 36 + ".99", "0.50", None]
    for at, number in enumerate(numbers):
        oracle.write(tmp_path, "d.t", [{"k": at, "v": number}])
    catalog = load_catalog(tmp_path)
    catalog.alter_table("d.t", [{"op": "type", "name": "v", "type": "DECIMAL(29, 0)"}])
    rows = oracle.read(tmp_path, "d.t")
    assert [json.loads(row)["v"] for row in rows] == ["9" * 29, "-" + "9" * 29, None, None, "1", None]
    assert ours(catalog.load_table("d.t")) == rows
    compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), catalog)
    assert oracle.read(tmp_path, "d.t") == rows
