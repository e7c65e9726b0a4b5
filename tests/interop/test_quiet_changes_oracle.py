"""`changelog-producer.row-deduplicate`: which rows count as unchanged, judged by Java Paimon 2.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import compact
from lakecore.verify.digest.shape import ProofMode
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

NUMBERS = ("NaN", 0.0, -0.0, None)
VALUES: dict[str, list[Any]] = {
    "f FLOAT": [*NUMBERS],
    "x DOUBLE": [*NUMBERS],
    "a ARRAY<DOUBLE>": [[1.0, number] for number in NUMBERS[:3]] + [[1.0], None],
    "m MAP<STRING, FLOAT>": [
        *([["a", number], ["b", 1.0]] for number in NUMBERS[:3]),
        [["b", 1.0], ["a", "NaN"]],
        None,
    ],
    "r ROW<d DOUBLE>": [{"d": number} for number in NUMBERS],
    "v VECTOR<FLOAT, 2>": [[1.0, number] for number in NUMBERS[1:3]] + [None],
}


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_numbers(producer: str, oracle2: Oracle, tmp_path: Path) -> None:
    """A row for each pair of an old and a new value of each column. (Java tells of rows with null elements that stayed
    the same, which mean nothing.)
    """
    quiet = {"changelog-producer": producer, "changelog-producer.row-deduplicate": "true"}
    options = {"bucket": "1", "write-only": "true", "num-sorted-run.compaction-trigger": "1", **quiet}
    definition = {"columns": ["k INT NOT NULL", *VALUES], "primaryKeys": ["k"], "options": options}
    pairs = [
        (column.split()[0], old, new) for column, values in VALUES.items() for old in values for new in values
    ]
    catalog = load_catalog(tmp_path)
    for name in ("d.ours", "d.theirs"):
        oracle2.create(tmp_path, name, definition)
    for at in (1, 2):
        rows = [{"k": k, pair[0]: pair[at]} for k, pair in enumerate(pairs)]
        for name in ("d.ours", "d.theirs"):
            oracle2.write(tmp_path, name, rows)
        oracle2.compact(tmp_path, "d.theirs", full=True)
        job = compact.Job(table="d.ours", strategy=compact.Strategy.FULL, proof=ProofMode.FULL)
        assert compact.run(job, catalog).error is None
    mine, theirs = (
        oracle2.call("stream", tmp_path, name, "--from-snapshot", 1) for name in ("d.ours", "d.theirs")
    )
    for ours, expected in zip(mine, theirs, strict=True):
        assert sorted(map(json.dumps, ours["rows"])) == sorted(map(json.dumps, expected["rows"]))
    assert 2 * len(pairs) > len(mine[1]["rows"]) > len(pairs)
