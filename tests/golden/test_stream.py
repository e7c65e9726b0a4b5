"""Streams of every golden table tell what Java told, plan by plan and row by row, in the same order."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

import lakecore
from lakecore.metadata.row_kind import RowKind
from lakecore.read.source.batch_limits import BatchLimits
from lakecore.read.source.micro_batch import MicroBatches
from lakecore.read.source.scan import Scan
from lakecore.read.source.stream import Changes
from lakecore.read.source.stream_view import StreamSelection, TableRows
from lakecore.row.json_rows import batch_to_json
from lakecore.scan.startup import Startup
from tests.support.golden import GoldenTable, golden_tables

STREAMED = [table for table in golden_tables() if (table.expected / "stream.jsonl.gz").exists()]


def told(changes: Changes) -> Iterator[str]:
    """Rows in the oracle's spelling, in order."""
    for batch in changes.to_batches():
        kinds = batch.column("_VALUE_KIND").to_pylist()
        lines = batch_to_json(batch.select(list(changes.rows.columns)), changes.rows.row_type)
        for kind, line in zip(kinds, lines, strict=True):
            yield line_of({"_kind": RowKind(kind).symbol, **json.loads(line)})


def line_of(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, ensure_ascii=False)


def expected(table: GoldenTable) -> list[dict[str, Any]]:
    text = gzip.decompress((table.expected / "stream.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("table", STREAMED, ids=lambda table: table.name)
def test_from_the_earliest_snapshot(table: GoldenTable) -> None:
    handle = lakecore.load_catalog(str(table.warehouse)).load_table(table.name)
    stream = handle.stream(snapshot=table.facts["streamFrom"], as_written=True)
    for plan in expected(table):
        changes = stream.poll()
        assert changes is not None
        assert ([changes.snapshot.id], changes.next_snapshot) == (plan["snapshots"], plan["next"])
        assert stream.watermark == plan["watermark"]
        assert list(told(changes)) == [line_of(row) for row in plan["rows"]]
    assert stream.poll() is None


def test_what_is_claimed() -> None:
    assert len(STREAMED) == 242


@pytest.mark.parametrize("table", STREAMED, ids=lambda table: table.name)
@pytest.mark.parametrize("limits", [BatchLimits(snapshots=1), BatchLimits(files=1)], ids=["one", "file"])
def test_in_micro_batches(table: GoldenTable, limits: BatchLimits) -> None:
    """The batches of an engine, each planned again from its offsets, have the rows that Java told."""
    handle = lakecore.load_catalog(str(table.warehouse)).load_table(table.name)
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": str(table.facts["streamFrom"])}
    startup, start, plans = Startup.from_options(options), None, []
    rows = StreamSelection.of(TableRows.of_table(handle, as_written=True))
    while (end := MicroBatches(handle, startup, rows).latest(start, limits)) not in (None, start):
        work = MicroBatches(handle, startup, rows).work(start, end)  # type: ignore[arg-type]
        plans.append(sorted(line for group in work for scan, part in group for line in told_by(scan, part)))
        start = end
    want = [sorted(line_of(row) for row in plan["rows"]) for plan in expected(table)]
    if limits != BatchLimits(snapshots=1):
        assert sorted(line for plan in plans for line in plan) == sorted(
            line for plan in want for line in plan
        )
    else:
        assert [plan for plan in plans if plan] == [plan for plan in want if plan]


def told_by(rows: Scan, part: Any) -> Iterator[str]:
    for batch in rows.read(part, kinds=True):
        kinds = batch.column("_VALUE_KIND").to_pylist()
        lines = batch_to_json(batch.select(list(rows.columns)), rows.row_type)
        for kind, line in zip(kinds, lines, strict=True):
            yield line_of({"_kind": RowKind(kind).symbol, **json.loads(line)})
