"""Every state of every golden table reads as Java read it."""

from __future__ import annotations

from collections import Counter

import pytest

import lakecore
from lakecore.metadata.row_kind import RowKind
from lakecore.row.json_rows import batch_to_json
from tests.support.golden import GoldenTable, View, canonical, golden_tables

LATEST = View("rows.jsonl")


def read(table: GoldenTable, view: View) -> list[str]:
    """Rows through the public API, in the oracle's spelling."""
    scan = lakecore.load_catalog(str(table.warehouse)).load_table(table.name).scan(**view.arguments)
    rows = scan.to_arrow()
    assert rows.schema.names == list(scan.columns)
    return canonical(line for batch in rows.to_batches() for line in batch_to_json(batch, scan.row_type))


def kinds(table: GoldenTable, view: View) -> Counter[str]:
    scan = lakecore.load_catalog(str(table.warehouse)).load_table(table.name).scan(**view.arguments)
    stored = (batch.column("_VALUE_KIND").to_pylist() for batch in scan.to_batches(kinds=True))
    return Counter(RowKind(kind).symbol for batch in stored for kind in batch)


def check(table: GoldenTable, view: View) -> None:
    assert read(table, view) == table.rows(view), view
    assert kinds(table, view) == table.kinds(view), view


@pytest.mark.parametrize("table", golden_tables(), ids=lambda table: table.name)
def test_latest(table: GoldenTable) -> None:
    check(table, LATEST)


@pytest.mark.slow
@pytest.mark.parametrize("table", golden_tables(), ids=lambda table: table.name)
def test_every_snapshot_tag_and_branch(table: GoldenTable) -> None:
    for view in table.views():
        check(table, view)


def test_nothing_is_left_out() -> None:
    states: dict[str, list[int]] = {}
    for table in golden_tables():
        counts = states.setdefault(table.version, [0, 0])
        counts[0] += 1
        counts[1] += len(list(table.views()))
    assert states == {"1.4.2": [127, 841], "2.0.0": [117, 817]}  # tables, states
