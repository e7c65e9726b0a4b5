"""Parts that are cut, so that all cores are at work: together they give the rows of the whole."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakecore
from lakecore.predicate.tree import Compare, Comparison
from lakecore.read.source import scan as scans
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.types.datatypes import AtomicType, TypeRoot
from tests.support.golden import GoldenTable, golden_tables

TABLES = [table for table in golden_tables() if "bucket" in table.options][::2]
SHARES = 3


def rows_of(batches: list[pa.RecordBatch]) -> list[str]:
    return sorted(repr(row) for batch in batches for row in batch.to_pylist())


@pytest.mark.slow
def test_shares_of_every_split_give_its_rows() -> None:
    cut = 0
    for golden in TABLES:
        table = lakecore.load_catalog(str(golden.warehouse)).load_table(golden.name)
        scan = table.scan()
        if not isinstance(scan.source, SnapshotRows) or not table.schema.primary_keys:
            continue
        for part in scan.plan():
            if part.raw_convertible:
                continue
            whole = rows_of(list(scan.read(part, kinds=True)))
            shares = scan.source.shares(part, SHARES, scan.columns, None, kinds=True)
            assert rows_of([batch for share in shares for batch in share()]) == whole, golden.name
            cut += len(shares) > 1
    assert cut > 50


MERGED = [
    table for table in TABLES if table.options.get("merge-engine") and table.options.get("bucket") == "1"
]


@pytest.mark.parametrize("golden", MERGED[:8], ids=lambda table: table.name)
def test_a_large_table_of_one_bucket_is_read_by_several(
    golden: GoldenTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lakecore.load_catalog(str(golden.warehouse)).load_table(golden.name)
    number = next(
        (
            f.name
            for f in table.schema.fields
            if isinstance(f.type, AtomicType) and f.type.root is TypeRoot.INT
        ),
        None,
    )
    where = None if number is None else Compare(number, Comparison.GT, 3)
    alone = [rows_of(list(table.scan(where=w).to_batches())) for w in (None, where)]
    monkeypatch.setattr(scans, "_LARGE", 0)
    monkeypatch.setattr(scans.os, "cpu_count", lambda: 4)
    assert [rows_of(list(table.scan(where=w).to_batches())) for w in (None, where)] == alone
