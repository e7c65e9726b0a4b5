"""Which rows count as unchanged: value by value, nulls and NaNs equal, zeros by sign, maps whatever their order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakecore.compact.kinds.primary_key.lookup.row_equality import equal_rows

NAN = float("nan")
ENTRIES = pa.map_(pa.string(), pa.int32())
FLOATS = pa.map_(pa.float64(), pa.int32())
TIMES = pa.map_(pa.timestamp("ns"), pa.float64())
ROW = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.float64()))])


@pytest.mark.parametrize(
    ("kind", "left", "right", "equal"),
    [
        (pa.int32(), [1, 1, None, None], [1, 2, None, 3], [True, False, True, False]),
        (pa.float64(), [0.0, NAN, 1.5], [-0.0, NAN, 1.5], [False, True, True]),
        (pa.float32(), [-0.0, NAN, None], [-0.0, -NAN, NAN], [True, True, False]),
        (pa.list_(pa.int32()), [[1, None], [], None, [1]], [[1, None], [], [], [1, 2]], [True, True, False, False]),
        (ENTRIES, [[("a", 1), ("b", 2)], [("a", 1)], None], [[("b", 2), ("a", 1)], [("a", 2)], []], [True, False, False]),
        (FLOATS, [[(NAN, 1), (2.0, 2)], [(-0.0, 1)]], [[(2.0, 2), (NAN, 1)], [(0.0, 1)]], [True, False]),
        (TIMES, [[(1, NAN), (2, 1.0)], [(1, 1.0)], [(1, 0.0)]], [[(2, 1.0), (1, NAN)], [(2, 1.0)], [(1, -0.0)]], [True, False, False]),
        (pa.list_(pa.float32(), 2), [[1, NAN], None, [0, 1], [1, 2]], [[1, NAN], None, [-0.0, 1], None], [True, True, False, False]),
        (ROW, [{"a": 1, "b": [NAN]}, {"a": None, "b": [1.0]}], [{"a": 1, "b": [NAN]}, {"a": None, "b": [1.0]}], [True, True]),
    ],
    ids=str,
)  # fmt: skip
def test_rows_are_equal_column_by_column(
    kind: pa.DataType, left: list[Any], right: list[Any], equal: list[bool]
) -> None:
    for offset in range(2):
        old, new = (
            pa.record_batch([pa.array([None] * offset + values, kind)], ["v"]).slice(offset)
            for values in (left, right)
        )
        assert equal_rows(old, new, ["v"]).tolist() == equal
        assert equal_rows(old, new, []).all()
