"""Deleted rows are left out by their place in the file, whatever else a read leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from lakecore.errors import CorruptDataError
from lakecore.predicate.parse import parse_where
from lakecore.read.file.key_range import KeyRange, RangeRows, read_range
from lakecore.read.file.sizes import ReadSizes
from lakecore.store.indexes import load_deletions
from tests.support.builders import table_schema

COLUMNS = "k BIGINT NOT NULL, v STRING, s INT"
ROWS = [(i, f"v{i:04d}", i % 7) for i in range(600)]
DELETED = {0, 5, 99, 100, 101, 250, 251, 599, *range(300, 420)}
WHERES = (
    None,
    "k = 250",
    "k >= 240 and k < 260",
    "v > 'v0590'",
    "k = 99 or k = 100 or k = 500",
    "s = 3",
    "k < 0",
)
ADD = 0


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_positions_hold_whatever_row_groups_are_left_out(small_table: Any, kind: str) -> None:
    table = small_table(table_schema(COLUMNS, primary_keys=()), kind, block_size=1000)
    files = [table.write(ROWS, chunk=100), table.write(ROWS[:10])]
    deleted = {files[0].file_name: DELETED}
    for where in WHERES:
        predicate = parse_where(where, table.schema.row_type) if where else None
        everything = table.read(*files, where=predicate)
        gone = {row for i, row in enumerate(ROWS) if i in DELETED}
        first = [row for row in everything[: len(table.read(files[0], where=predicate))] if row not in gone]
        second = table.read(files[1], where=predicate)
        assert table.read(*files, where=predicate, deleted=deleted) == first + second, where


def test_hidden_rows_of_a_key_do_not_win_a_merge(small_table: Any) -> None:
    table = small_table(table_schema(COLUMNS))
    old = table.write([(k, 1, ADD, k, "old", 0) for k in range(6)], level=5)
    new = table.write([(k, 2, ADD, k, "new", 0) for k in range(3)], level=4)
    rows = table.read(old, new, columns=["k", "v"], deleted={new.file_name: [1], old.file_name: [0, 5]})
    assert rows == [(0, "new"), (1, "old"), (2, "new"), (3, "old"), (4, "old")]


@pytest.mark.parametrize("kind", ["parquet", "avro"])
def test_ranges_of_keys_keep_positions(small_table: Any, kind: str) -> None:
    table = small_table(table_schema(COLUMNS), kind, block_size=1000)
    file = table.write([(k, 1, ADD, k, f"{k}", 0) for k in range(400)], chunk=50, level=5)
    split = table.split(file, deleted={file.file_name: [99, 100, 150, 399]})
    deletions = load_deletions(table.file_io, split.deletions_of[file.file_name])
    for low, high in ((None, None), ((100,), (160,)), ((98,), (101,)), ((350,), None)):
        bounds = KeyRange(low, high)
        batches = read_range(
            table.context, table.bucket_dir, file, ["k"], RangeRows(bounds, deletions), ReadSizes(17)
        )
        found = [k for batch in batches for k in batch.column("k").to_pylist()]
        inside = range(low[0] if low else 0, high[0] if high else 400)
        assert found == [k for k in inside if k not in deletions], bounds


def test_a_row_that_is_not_there_is_damage(small_table: Any) -> None:
    table = small_table(table_schema(COLUMNS, primary_keys=()))
    file = table.write(ROWS[:10])
    with pytest.raises(CorruptDataError, match="row 10 is deleted, but the file has 10 rows"):
        table.read(file, deleted={file.file_name: [3, 10]})
