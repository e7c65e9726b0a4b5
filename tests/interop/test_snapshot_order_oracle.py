"""Rows of a key in the order of their snapshots, whatever numbers their writers gave them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from lakecore.jobs import compact, rescale
from lakecore.row.json_rows import batch_to_json, json_to_batch
from lakecore.table import Table
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings
from tests.support.twins import Twins

pytestmark = pytest.mark.slow

COLUMNS = ["k INT NOT NULL", "p INT NOT NULL", "n INT", "s STRING", "g INT"]
FUNCTIONS = {"n": "last_value", "s": "listagg", "g": "sum"}
CASES: dict[str, dict[str, str]] = {
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "vectors": {"deletion-vectors.enabled": "true", "bucket": "-1"},
    "partial-update": {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
        "changelog-producer": "full-compaction",
    },
    "aggregation": {
        "merge-engine": "aggregation",
        "changelog-producer": "lookup",
        **{f"fields.{name}.aggregate-function": function for name, function in FUNCTIONS.items()},
    },
}


def some_rows(dice: random.Random, name: str, count: int) -> list[dict[str, Any]]:
    """The more rows, the higher the numbers of the last ones: a later, smaller commit has lower numbers."""
    kinds = ["+I"] if name == "aggregation" else ["+I", "+I", "+U", "-D"]
    return [
        {
            "k": dice.randrange(40),
            "p": dice.randrange(2),
            "n": dice.choice([None, *range(9)]),
            "s": dice.choice([None, *"abc"]),
            "g": dice.randrange(99),
            "_kind": dice.choice(kinds),
        }
        for _ in range(count)
    ]


def ours(table: Table, **scan: Any) -> list[str]:
    found = table.scan(**scan)
    return canonical(line for batch in found.to_batches() for line in batch_to_json(batch, found.row_type))


def check(twins: Twins, java: Oracle) -> None:
    """Nobody reads other rows, and nothing is found. (Java's check expects stamps on changelog files.)"""
    assert ours(twins.opened) == java.read(twins.ours, "d.t") == java.read(twins.java, "d.t")
    found = findings(java.fsck(twins.ours, "d.t"))
    assert {text for text in found if "/changelog: seq range of changelog-" not in text} == set()


def check_states(twins: Twins, java: Oracle) -> None:
    table = twins.opened
    for number in table._stores.snapshots.list_ids():
        wanted = java.read(twins.ours, "d.t", snapshot=number)
        assert ours(table, snapshot=number) == wanted
        some = [line for line in wanted if (row := json.loads(line))["k"] < 20 and row["n"] == 3]
        assert ours(table, snapshot=number, where="k < 20 and n = 3") == some


@pytest.mark.parametrize("name", CASES)
def test_java_and_lakecore_merge_alike(name: str, oracle2: Oracle, tmp_path: Path) -> None:
    """Each compacts a copy of what Java wrote; then both write to and compact what lakecore made."""
    dice = random.Random(name)
    options = {"bucket": "2", "sequence.snapshot-ordering": "true", "write-only": "true"} | CASES[name]
    schema = {"columns": COLUMNS, "primaryKeys": ["p", "k"], "partitionKeys": ["p"], "options": options}
    oracle2.create(tmp_path, "d.t", schema)
    for number, count in enumerate((200, 60, 25, 40, 5)):
        oracle2.write(tmp_path, "d.t", some_rows(dice, name, count))
        if number == 2:
            oracle2.compact(tmp_path, "d.t", full=True)
    twins = Twins.of(tmp_path / "d.db" / "t", "d.t", tmp_path)
    for strategy in (compact.Strategy.UNIVERSAL, compact.Strategy.FULL):
        oracle2.compact(twins.java, "d.t", full=strategy is compact.Strategy.FULL)
        job = compact.Job(table="d.t", strategy=strategy, proof=compact.ProofMode.FULL)
        assert compact.run(job, twins.lake).error is None
        check(twins, oracle2)
        rows, more = some_rows(dice, name, 50), some_rows(dice, name, 7)
        twins.opened.write(json_to_batch(map(json.dumps, rows), twins.opened.schema.row_type))
        oracle2.write(twins.java, "d.t", rows)
        for warehouse in (twins.java, twins.ours):
            oracle2.write(warehouse, "d.t", more)
    for warehouse in (twins.java, twins.ours):
        oracle2.compact(warehouse, "d.t", full=True)
    check(twins, oracle2)
    check_states(twins, oracle2)
    assert told(twins.java, oracle2) == told(twins.ours, oracle2)
    if name != "lookup":
        return
    for count in (40, 6):
        oracle2.write(twins.ours, "d.t", some_rows(dice, name, count))
    wanted = oracle2.read(twins.ours, "d.t")
    rescale.run(rescale.Job(table="d.t", bucket_num=3), twins.lake)
    assert wanted == ours(twins.opened) == oracle2.read(twins.ours, "d.t")
    oracle2.call("alter", twins.ours, "d.t", '[{"op": "set", "key": "bucket", "value": "3"}]')
    oracle2.compact(twins.ours, "d.t", full=True)
    assert wanted == ours(twins.opened) == oracle2.read(twins.ours, "d.t")


def told(warehouse: Path, java: Oracle) -> list[list[str]]:
    """The change stream, plan by plan."""
    return [canonical(plan["rows"]) for plan in java.call("stream", warehouse, "d.t", "--from-snapshot", 1)]
