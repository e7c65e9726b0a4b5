"""Texts of floating-point numbers, in which Java before 19 has other digits than the fewest: partitions and casts."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import compact
from lakecore.row.json_rows import json_to_batch
from tests.interop.evolution import ours
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

NUMBERS = (2.0**-44, 953516224.0, 7.526454e8, 2.0e-3, 1.0e23, -16777216.0, 0.1, float(2**63))


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_partitions(kind: str, oracle: Oracle, tmp_path: Path) -> None:
    """Each side writes into the directories of the other."""
    definition = {"columns": [f"p {kind}", "k INT"], "partitionKeys": ["p"], "options": {"bucket": "-1"}}
    oracle.create(tmp_path, "d.t", definition)
    numbers = [single(number) if kind == "FLOAT" else number for number in NUMBERS]
    oracle.write(tmp_path, "d.t", [{"p": number, "k": 1} for number in numbers])
    table = load_catalog(tmp_path).load_table("d.t")
    directories = sorted(path.name for path in (tmp_path / "d.db" / "t").glob("p=*"))
    assert len(ours(table)) == len(NUMBERS)
    rows = [json.dumps({"p": number, "k": 2}) for number in numbers]
    table.write(json_to_batch(rows, table.schema.row_type))
    assert sorted(path.name for path in (tmp_path / "d.db" / "t").glob("p=*")) == directories
    assert ours(table) == oracle.read(tmp_path, "d.t")
    assert len(ours(table)) == 2 * len(NUMBERS)
    catalog = load_catalog(tmp_path)
    done = compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), catalog)
    assert (done.files_in, done.files_out) == (2 * len(NUMBERS), len(NUMBERS))
    assert ours(catalog.load_table("d.t")) == ours(table) == oracle.read(tmp_path, "d.t")
    assert not findings(oracle.fsck(tmp_path, "d.t"))


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_casts(kind: str, oracle: Oracle, tmp_path: Path) -> None:
    oracle.create(tmp_path, "d.t", {"columns": [f"v {kind}", "k INT"], "options": {"bucket": "-1"}})
    oracle.write(tmp_path, "d.t", [{"v": number, "k": at} for at, number in enumerate(NUMBERS)])
    catalog = load_catalog(tmp_path)
    catalog.alter_table("d.t", [{"op": "type", "name": "v", "type": "STRING"}])
    rows = oracle.read(tmp_path, "d.t")
    assert ours(catalog.load_table("d.t")) == rows
    more_digits = {"FLOAT": "9.5351622E8", "DOUBLE": "5.6843418860808015E-14"}
    assert more_digits[kind] in {json.loads(row)["v"] for row in rows}


def single(number: float) -> float:
    """The nearest FLOAT."""
    return float(struct.unpack("<f", struct.pack("<f", number))[0])
