"""Java reads, checks, compacts and continues tables that lakecore wrote with several threads that encode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import fsck
from lakecore.row.json_rows import batch_to_json
from lakecore.table import Table
from lakecore.types.datatypes import DataField, RowType, parse_type
from tests.support.encoding_threads import COLUMNS, SHAPES, definition, encoding_threads, rows_of_shape
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

TYPES = RowType(
    tuple(
        DataField(number, name, parse_type(kind))
        for number, (name, kind) in enumerate(column.split(" ", 1) for column in COLUMNS)
    )
)


def ours(table: Table) -> list[str]:
    scan = table.scan()
    return canonical(line for batch in scan.to_batches() for line in batch_to_json(batch, scan.row_type))


def wanted(shape: str, writes: list[pa.Table]) -> list[str]:
    """The rows by plain Python: all of them, or the last of each key."""
    rows: list[dict[str, Any]] = [row for write in writes for row in write.to_pylist()]
    keys = SHAPES[shape].get("primaryKeys")
    if keys:
        rows = list({tuple(row[key] for key in keys): row for row in rows}.values())
    columns = {name: [row[name] for row in rows] for name in writes[0].schema.names}
    batch = pa.RecordBatch.from_pydict(columns, schema=writes[0].schema)
    return canonical(batch_to_json(batch, TYPES))


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "postponed"])
def test_java_reads_and_compacts_what_two_threads_encoded(shape: str, oracle: Oracle, tmp_path: Path) -> None:
    lake = load_catalog(tmp_path)
    table = lake.create_table("d.t", definition(shape))
    writes = [rows_of_shape(600), rows_of_shape(300, first=450)]
    with encoding_threads(2) as work:
        for rows in writes:
            table.write(rows.to_batches(max_chunksize=40))
    assert work.begun > 5
    rows_of_table = wanted(shape, writes)
    visible = rows_of_table if reads_level_0(shape) else []
    assert oracle.read(tmp_path, "d.t") == ours(lake.load_table("d.t")) == visible
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()
    assert fsck.run(fsck.Job(table="d.t", deep=True), lake).report.findings == ()
    oracle.compact(tmp_path, "d.t", full=True, options={"write-buffer-size": "64 mb"})
    assert oracle.read(tmp_path, "d.t") == rows_of_table == ours(lake.load_table("d.t"))
    assert findings(oracle.fsck(tmp_path, "d.t")) == set()


def reads_level_0(shape: str) -> bool:
    """Nobody reads level 0 of a table with deletion vectors and a key."""
    options = SHAPES[shape].get("options", {})
    return "primaryKeys" not in SHAPES[shape] or "deletion-vectors.enabled" not in options
