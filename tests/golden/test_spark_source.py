"""What Spark gets of every state of every golden table is what Java read there; splits are cut as small as can be.

Spark itself reads the latest states in tests/spark/test_source.py.
"""

from __future__ import annotations

import pytest

import lakecore
from tests.support.golden import GoldenTable, View, golden_tables
from tests.support.spark_source import canonical_rows, read_source

SMALL = {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"}


def check(table: GoldenTable, view: View, **more: str) -> None:
    named = {"scan.snapshot-id": view.snapshot, "scan.tag-name": view.tag, "branch": view.branch}
    options = {key: str(value) for key, value in named.items() if value is not None}
    base = {"warehouse": str(table.warehouse), "path": table.name, "nanoseconds": "text"}
    rows, _, _ = read_source({**base, **options, **more})
    handle = lakecore.load_catalog(str(table.warehouse)).load_table(table.name)
    kind = handle.scan(**view.arguments).row_type
    assert canonical_rows(rows, kind) == table.rows(view), view


@pytest.mark.parametrize("table", golden_tables(), ids=lambda table: table.name)
def test_latest(table: GoldenTable) -> None:
    check(table, View("rows.jsonl"), **SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("table", golden_tables(), ids=lambda table: table.name)
def test_every_snapshot_tag_and_branch(table: GoldenTable) -> None:
    for view in table.views():
        check(table, view)
