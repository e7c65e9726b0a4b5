"""Golden tables with fixed buckets rescaled by lakecore: Java reads the same rows, finds nothing new, writes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lakecore
from lakecore.jobs import rescale
from tests.support.golden import GoldenTable, View, golden_tables
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

LATEST = View("rows.jsonl")
NAMES = (
    *("h3_append_bucket_part_mod", "a_dv_append_bucket_part", "h3_dv_pk"),
    *("a_evo_pk", "a_pk_dedup_b3_part", "h3_pk_partial_seqgroup"),
)
TABLES = [table for table in golden_tables() if table.table in NAMES]


def test_the_tables_are_there() -> None:
    assert {table.table for table in TABLES} == set(NAMES)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_java_accepts_the_rescaled_table(
    table: GoldenTable, tmp_path: Path, oracles: dict[str, Oracle]
) -> None:
    java = oracles[table.version]
    copy = table.copy_to(tmp_path)
    lake = lakecore.load_catalog(str(copy.warehouse), **{"local.fsync": "false"})
    before = findings(java.fsck(table.warehouse, table.name))
    for number in (5, 4):
        report = rescale.run(rescale.Job(table=table.name, bucket_num=number), lake)
        assert (report.error, report.blocker) == (None, "")
        assert java.read(copy.warehouse, copy.name) == table.rows(LATEST), number
        assert findings(java.fsck(copy.warehouse, copy.name)) - before == set()
    files = java.call("scan", copy.warehouse, copy.name)["files"]
    assert {file["totalBuckets"] for file in files} == {4}
    for tag in table.facts["tags"]:
        rows = java.read(copy.warehouse, copy.name, tag=tag["name"])
        assert rows == table.rows(View(f"tag-{tag['name']}.jsonl.gz"))
    for warehouse in (copy.warehouse, table.copy_to(tmp_path / "untouched").warehouse):
        change = [{"op": "set", "key": "bucket", "value": "4"}]
        if warehouse == copy.warehouse:
            java.call("alter", warehouse, copy.name, json.dumps(change))
        java.write(warehouse, copy.name, map(json.loads, table.rows(LATEST)[:3]))
        java.compact(warehouse, copy.name, full=True)
    assert java.read(copy.warehouse, copy.name) == java.read(tmp_path / "untouched", copy.name)
    assert findings(java.fsck(copy.warehouse, copy.name)) - before == set()
