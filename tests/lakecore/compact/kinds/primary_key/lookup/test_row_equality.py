"""Which rows count as unchanged: value by value, nulls equal, NaN never, maps whatever their order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakecore.compact.kinds.primary_key.lookup.row_equality import equal_rows

NAN = float("nan")
ENTRIES = pa.map_(pa.string(), pa.int32())
ROW = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.float64()))])


@pytest.mark.parametrize(
    ("kind", "left", "right", "equal"),
    [
        (pa.int32(), [1, 1, None, None], [1, 2, None, 3], [True, False, True, False]),
        (pa.float64(), [0.0, NAN, 1.5], [-0.0, NAN, 1.5], [True, False, True]),
        (pa.list_(pa.int32()), [[1, None], [], None, [1]], [[1, None], [], [], [1, 2]], [True, True, False, False]),
        (ENTRIES, [[("a", 1), ("b", 2)], [("a", 1)], None], [[("b", 2), ("a", 1)], [("a", 2)], []], [True, False, False]),
        (ROW, [{"a": 1, "b": [NAN]}, {"a": None, "b": [1.0]}], [{"a": 1, "b": [NAN]}, {"a": None, "b": [1.0]}], [False, True]),
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
