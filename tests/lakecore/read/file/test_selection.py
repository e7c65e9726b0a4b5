"""Rows by position: only the row groups that hold some are read, and of their batches only these rows."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lakecore.format.parquet.reader import ParquetReader
from lakecore.jobs.rewrite_file_index import Job, run
from lakecore.read.file.row_groups import group_sizes
from lakecore.read.file.selection import select_rows
from tests.support.lake import append_table, memory_catalog


@given(
    sizes=st.lists(st.integers(1, 9), max_size=5),
    excluded=st.sets(st.integers(0, 4)),
    wanted=st.none() | st.sets(st.integers(0, 50)),
    step=st.integers(1, 11),
)
def test_what_is_read_is_what_is_wanted(
    sizes: list[int], excluded: set[int], wanted: set[int] | None, step: int
) -> None:
    groups = [group for group in range(len(sizes)) if group not in excluded]
    starts = [0, *accumulate(sizes)]
    rows = None if wanted is None else BitMap(sorted(row for row in wanted if row < starts[-1]))
    selection = select_rows(sizes, groups, rows)
    assert selection.groups is not None
    read = [row for group in selection.groups for row in range(starts[group], starts[group + 1])]
    batches = (
        pa.record_batch([pa.array(read[at : at + step], pa.int64())], ["row"])
        for at in range(0, len(read), step)
    )
    found = [row for batch in selection.select(batches) for row in batch.column("row").to_pylist()]
    assert found == [
        row
        for group in groups
        for row in range(starts[group], starts[group + 1])
        if rows is None or row in rows
    ]
    if rows is not None:
        assert all(rows & BitMap(range(starts[g], starts[g + 1])) for g in selection.groups)


def test_row_groups_without_a_match_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = memory_catalog("selection")
    table = append_table(catalog, ("v INT", "w STRING"), file__block_size="20 kb", target_file_size="400 kb")
    count = 20_000
    values = [(7919 * n) % count for n in range(count)]  # every row group has about the same bounds
    table.append(pa.table({"v": values, "w": [f"{n:09d}" for n in range(count)]}))
    run(Job(table=table.name, options={"file-index.bsi.columns": "v"}), catalog, clock=catalog.clock)
    read: list[tuple[Any, Any]] = []
    batches = ParquetReader.batches

    def counted(self: ParquetReader, columns: Any, size: int, groups: Any) -> Any:
        read.append((groups, group_sizes(self)))
        return batches(self, columns, size, groups)

    monkeypatch.setattr(ParquetReader, "batches", counted)
    found = table.scan(where="v between 100 and 101").to_arrow()
    assert sorted(found.column("v").to_pylist()) == [100, 101]
    ((groups, sizes),) = read
    assert len(groups) <= 2 < len(sizes)
