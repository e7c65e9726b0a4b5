"""Groups of a window, and folding them: singles pass, dropped results are accounted for."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakecore.errors import UnsupportedError
from lakecore.merge.engines.first_row import FirstRow
from lakecore.merge.sorted_merge import MergedWindow, MergeSpec, group_rows, merge_runs
from lakecore.merge.windows import windows

Row = tuple[int, int, int, str]
NAMES = ["k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "v"]
TYPES = [pa.int64(), pa.int64(), pa.int8(), pa.string()]
OLD: list[Row] = [(1, 0, 0, "a"), (2, 1, 0, "b"), (4, 2, 3, "c")]
NEW: list[Row] = [(1, 9, 2, "x"), (3, 8, 1, "y"), (4, 7, 0, "z"), (5, 6, 0, "w")]


def run(rows: list[Row]) -> Iterator[pa.RecordBatch]:
    columns = [
        pa.array(list(column), kind) for column, kind in zip(zip(*rows, strict=True), TYPES, strict=True)
    ]
    return iter([pa.RecordBatch.from_arrays(columns, names=NAMES)])


def test_a_window_tells_order_groups_and_runs() -> None:
    spec = MergeSpec(key_columns=("k",))
    first, second = (group_rows(parts, spec) for parts in windows([run(OLD), run(NEW)], ["k"]))
    keys = first.batch.column("k").take(pa.array(first.rows)).to_pylist()
    assert keys == [1, 1, 2, 3, 4, 4]
    assert first.starts.tolist() == [0, 2, 3, 4]
    assert first.run_of_rows.tolist() == [0, 1, 0, 1, 0, 1]
    assert second.run_of_rows.tolist() == [1]


@pytest.mark.parametrize("drop", [False, True])
def test_the_account_of_a_fold_adds_up(drop: bool) -> None:
    spec = MergeSpec(
        key_columns=("k",),
        drop_retracts=drop,
        evidence=True,
        lost_rows=True,
        ignore_retracts=True,
        engine=FirstRow("t", ignore_retracts=True),
    )
    found: list[Row] = []
    rows: list[Row] = []
    keys: list[int] = []
    ignored: list[Row] = []
    for window in merge_runs([run(OLD), run(NEW)], spec):
        found += [tuple(row.values()) for row in window.batch.to_pylist()]
        seen = window.evidence
        rows += (shown := [tuple(row.values()) for row in seen.rows.to_pylist()])
        assert [tuple(row.values()) for row in seen.results.to_pylist()] == found[-window.batch.num_rows :]
        met = sorted({row[0] for row in shown})
        keys += [met[place] for place in seen.groups]
        ignored += [row for row, out in zip(shown, seen.ignored, strict=True) if out]
    assert found == [row for row in [OLD[0], OLD[1], NEW[1], NEW[2], NEW[3]] if not drop or row != NEW[1]]
    assert rows == sorted(OLD + NEW, key=lambda row: (row[0], row[1]))
    assert keys == [row[0] for row in found]
    assert ignored == [OLD[2]]


def test_the_lowest_level_above_0_stands_for_those_above() -> None:
    oldest: list[Row] = [(1, 0, 0, "a"), (2, 1, 0, "b"), (4, 2, 0, "c")]
    spec = MergeSpec(key_columns=("k",), engine=FirstRow("t"), levels=(5, 3, 0))
    middle, newest = [(1, 5, 0, "m"), (3, 6, 0, "n")], [(1, 9, 0, "x"), (2, 8, 0, "y"), (3, 7, 0, "z")]
    found = [
        row for window in merge_runs([run(oldest), run(middle), run(newest)], spec) for row in rows_in(window)
    ]
    assert found == [(1, 5, 0, "m"), (2, 1, 0, "b"), (3, 6, 0, "n"), (4, 2, 0, "c")]


def rows_in(window: MergedWindow) -> list[Row]:
    return [tuple(row.values()) for row in window.batch.to_pylist()]


def test_first_row_refuses_retracts_unless_they_are_ignored() -> None:
    with pytest.raises(UnsupportedError, match=r"table t: .* ignore-delete=true"):
        list(merge_runs([run(OLD), run(NEW)], MergeSpec(key_columns=("k",), engine=FirstRow("t"))))
    both: list[list[Row]] = [[(1, 0, 3, "a")], [(1, 1, 1, "b")]]
    engine = FirstRow("t", ignore_retracts=True)
    (window,) = merge_runs([run(rows) for rows in both], MergeSpec(key_columns=("k",), engine=engine))
    assert window.batch.num_rows == 0
