"""Golden append tables put in order by lakecore: Java reads the same rows, finds nothing new, and writes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lakecore
from lakecore.jobs import compact
from tests.support.golden import GoldenTable, View, golden_tables
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

LATEST = View("rows.jsonl")
ATOMIC = ("INT", "BIGINT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL", "STRING", "VARCHAR", "DATE", "TIME",
          "BOOLEAN", "CHAR", "BYTES", "BINARY", "VARBINARY")  # fmt: skip
NAMES = (
    *("a_append_row_tracking", "h3_append_row_tracking", "a_dv_append_compacted", "h3_dv_append"),
    *("a_evo_append_orc", "a_old082_append", "h3_types_append_parquet", "a_part_special"),
)
TABLES = [table for table in golden_tables() if table.table in NAMES]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_java_accepts_the_table_in_order(
    table: GoldenTable, tmp_path: Path, oracles: dict[str, Oracle]
) -> None:
    java = oracles[table.version]
    copy = table.copy_to(tmp_path)
    columns = order_columns(table)
    before = findings(java.fsck(table.warehouse, table.name))
    for strategy in list(compact.OrderStrategy)[1:]:
        by = (
            columns
            if strategy is not compact.OrderStrategy.HILBERT
            else (columns * 2)[: max(2, len(columns))]
        )
        job = compact.Job(table=table.name, order_strategy=strategy, order_by=by)
        if len(set(by)) < len(by):
            continue  # one column only: no curve
        report = compact.run(job, lakecore.load_catalog(str(copy.warehouse)))
        assert report.snapshot is not None
        assert java.read(copy.warehouse, copy.name) == table.rows(LATEST), strategy
        assert findings(java.fsck(copy.warehouse, copy.name)) - before == set()
    for tag in table.facts["tags"]:
        rows = java.read(copy.warehouse, copy.name, tag=tag["name"])
        assert rows == table.rows(View(f"tag-{tag['name']}.jsonl.gz"))
    row = table.rows(LATEST)[:1]
    java.write(copy.warehouse, copy.name, map(json.loads, row))
    assert java.read(copy.warehouse, copy.name) == sorted(table.rows(LATEST) + row)


def order_columns(table: GoldenTable) -> tuple[str, ...]:
    """Up to six columns that have an order."""
    schema = table.facts["schema"]
    fields = [field for field in schema["fields"] if field["name"] not in schema["partitionKeys"]]
    return tuple(f["name"] for f in fields if str(f["type"]).split("(")[0].split(" ")[0] in ATOMIC)[-6:]
