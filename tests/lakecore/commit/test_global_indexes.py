"""An update of columns under a global index is refused; others, and other rows and columns, are not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakecore.commit.index_changes import UpdatedRows, check_no_stale_index
from lakecore.errors import UnsupportedError
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, GlobalIndex, IndexFile
from lakecore.row.binary_row import EMPTY_ROW
from lakecore.table import Commit, Table
from tests.support.builders import commit_message
from tests.support.lake import append_table, memory_catalog, paths_of, rows_of


def index(first: int, last: int, field: int, *more: int) -> IndexFile:
    coverage = GlobalIndex(first=first, last=last, field_id=field, extra_field_ids=more or None)
    return IndexFile(
        partition=EMPTY_ROW,
        bucket=0,
        index_type="btree",
        file_name=f"global-index-{field}",
        file_size=10,
        row_count=last - first + 1,
        global_index=coverage,
    )


VECTORS = IndexFile(
    partition=EMPTY_ROW, bucket=0, index_type=DELETION_VECTORS, file_name="i", file_size=1, row_count=1
)


@pytest.mark.parametrize(
    ("found", "first", "last", "fields", "stale"),
    [
        (index(0, 9, 1), 0, 4, {1}, True),
        (index(0, 9, 1), 9, 20, {1, 2}, True),
        (index(0, 9, 1), 10, 20, {1}, False),
        (index(5, 9, 1), 0, 4, {1}, False),
        (index(0, 9, 1), 0, 4, {2}, False),
        (index(0, 9, 1, 2), 0, 4, {2}, True),
        (index(0, 9, 1), 0, 4, set(), False),
        (VECTORS, 0, 4, {1}, False),
    ],
)
def test_which_updates_make_an_index_stale(
    found: IndexFile, first: int, last: int, fields: set[int], stale: bool
) -> None:
    updates = [UpdatedRows(first, last, frozenset(fields))]
    if stale:
        with pytest.raises(UnsupportedError, match=found.file_name):
            check_no_stale_index("d.t", [VECTORS, found], updates)
    else:
        check_no_stale_index("d.t", [VECTORS, found], updates)


@pytest.fixture
def table() -> Table:
    """Four rows; column `v` (field 0) of the first three has a global index."""
    options = {"row_tracking__enabled": "true", "data_evolution__enabled": "true"}
    table = append_table(memory_catalog("global-indexes"), **options)
    table.write(pa.table({"v": pa.array([1, 2, 3], pa.int32()), "p": ["a", "b", "c"]}))
    table.write(pa.table({"v": pa.array([4], pa.int32()), "p": ["d"]}))
    table._commit([commit_message(new_index_files=(index(0, 2, 0),))], Commit(user="indexer", identifier=1))
    return table


def update(table: Table, row: int, **values: object) -> None:
    types = {"v": pa.int32(), "p": pa.string()}
    columns = {name: pa.array([value], types[name]) for name, value in values.items()}
    table.update_columns(pa.table({"_ROW_ID": pa.array([row], pa.int64()), **columns}))


def test_an_update_of_an_indexed_column_is_refused_and_changes_nothing(table: Table) -> None:
    before, paths = table.latest_snapshot(), paths_of(table, "")
    with pytest.raises(UnsupportedError, match=r"global index global-index-0 \(btree\).*drop the index"):
        update(table, 1, v=20)
    with pytest.raises(UnsupportedError, match="global index"):
        update(table, 1, v=20, p="x")
    assert table.latest_snapshot() == before
    assert paths_of(table, "") == paths


def test_other_columns_and_other_rows_may_change(table: Table) -> None:
    update(table, 1, p="x")
    update(table, 3, v=40)
    assert rows_of(table) == [(1, "a"), (2, "x"), (3, "c"), (40, "d")]
