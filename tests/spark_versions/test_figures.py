"""The table of versions in docs/spark.md says what the last run of `make spark-versions` showed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.spark_versions.copied import CONDITIONS, READERS
from tests.spark_versions.expected import ENVIRONMENTS, PLANNED
from tests.spark_versions.pipeline import STEPS
from tests.support.copied_tables import COPIES

ROOT = Path(__file__).parents[2]
ROWS = {
    "compact": "jobs of maintenance", "read": "`Scan.to_spark`", "partitions": "`Scan.to_spark`",
    "join": "`Scan.to_spark`", "write": "`lakecore.spark.write`", "files": "`lakecore.spark.write`",
    "loaded": "the format `lakecore`", "save": "the format `lakecore`", "copy": "the format `lakecore`",
    "sunk": "`writeStream.format", "pushed": "`push-filters=once`", "limited": "limits of a micro-batch",
    "variant": "columns of type VARIANT", "time": "columns of type TIME",
}  # fmt: skip
"""Each row of the table begins so, and each of these steps is behind it."""


def figures() -> dict[str, dict[str, str]]:
    found = json.loads((ROOT / "docs/figures/spark_versions.json").read_text())
    return {name: found["figures"][name] for name in ENVIRONMENTS}


def test_every_version_ran_and_did_what_is_planned() -> None:
    for name, run in figures().items():
        version = tuple(map(int, run["pyspark"].split(".")[:2]))
        assert name in ("lowest", ".".join(map(str, version)))
        assert {step: run[step] for step in STEPS} == {
            step: "works" if version >= PLANNED.get(step, (0, 0)) else "refused" for step in STEPS
        }


def test_spark_and_the_connector_read_each_kind_of_copies_with_every_condition() -> None:
    found = json.loads((ROOT / "docs/figures/spark_copies.json").read_text())["figures"]
    assert found["conditions"] == len(CONDITIONS)
    assert found["tables"] == {kind: dict.fromkeys(READERS, len(CONDITIONS)) for kind in COPIES}


@pytest.mark.parametrize("step", ROWS)
def test_the_table_says_the_same(step: str) -> None:
    text = (ROOT / "docs/spark.md").read_text()
    (line,) = re.findall(rf"^\| {re.escape(ROWS[step])}.*$", text, re.MULTILINE)
    cells = [cell.strip() for cell in line.strip("|").split("|")][1:]
    told = dict(zip(ENVIRONMENTS[1:], cells, strict=True))
    assert {name: cell.split(",")[0] for name, cell in told.items()} == {
        name: {"works": "yes", "refused": "no"}[figures()[name][step]] for name in told
    }
