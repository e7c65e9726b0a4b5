"""Streams of every golden table tell what Java told, plan by plan and row by row, in the same order."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

import lakecore
from lakecore.metadata.row_kind import RowKind
from lakecore.read.source.stream import Changes
from lakecore.row.json_rows import batch_to_json
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
    stream = handle.stream(snapshot=table.facts["streamFrom"])
    for plan in expected(table):
        changes = stream.poll()
        assert changes is not None
        assert ([changes.snapshot.id], changes.next_snapshot) == (plan["snapshots"], plan["next"])
        assert stream.watermark == plan["watermark"]
        assert list(told(changes)) == [line_of(row) for row in plan["rows"]]
    assert stream.poll() is None


def test_what_is_claimed() -> None:
    assert len(STREAMED) == 242
