"""Single columns of serialised rows, decoded for many rows at once, are those of whole rows."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from lakecore.row.binary_row import encode_row
from lakecore.row.values import values_array
from lakecore.scan.stats_columns import arities, row_column
from tests.support.typed_values import row_of

SPARE = bytes(8)
VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127],
    "SMALLINT": [-300, 300],
    "INT": [-(1 << 31), 7],
    "BIGINT": [-(1 << 63), 1 << 40],
    "FLOAT": [-1.5, 0.25],
    "DOUBLE": [-1e300, 2.5],
    "DATE": [-1, 20000],
    "STRING": ["", "short", "longer than one slot"],
    "DECIMAL(18, 2)": [Decimal("-12.34"), Decimal("56.78")],
    "TIMESTAMP(3)": [-1_000_000, 5_000_000],
    "TIMESTAMP(6)": [-1_001_000, 5_000_001_000],
}


@pytest.mark.parametrize("kind", VALUES)
def test_each_column_of_wide_rows(kind: str) -> None:
    """Bits of nulls begin behind the first byte, so that columns 7 and 55 have the last one of a byte and a word."""
    dice, width = random.Random(kind), 70
    fields = row_of(*[kind] * width)
    rows = [[dice.choice([None, *VALUES[kind]]) for _ in range(width)] for _ in range(40)]
    encoded = [encode_row(row, fields) for row in rows]
    length = np.array([len(one) for one in encoded], np.int64)
    start = np.cumsum(length) - length
    buffer = np.frombuffer(b"".join([*encoded, SPARE]), np.uint8)
    assert set(arities(buffer, start, length).tolist()) == {width}
    for index, field in enumerate(fields.fields):
        found = row_column(buffer, start, length, arity=width, index=index, data_type=field.type)
        assert found is not None
        expected = values_array([row[index] for row in rows], field.type)
        assert found.cast(expected.type).equals(expected), index


def test_damaged_rows_have_no_values() -> None:
    """A row that is too short has no fields; a text that would end behind its row is null, as an unknown bound is."""
    fields = row_of("STRING")
    whole = encode_row(["longer than one slot"], fields)
    rows = [whole, whole[:-8], whole[:3], b"", whole]
    length = np.array([len(one) for one in rows], np.int64)
    start = np.cumsum(length) - length
    buffer = np.frombuffer(b"".join([*rows, SPARE]), np.uint8)
    assert arities(buffer, start, length).tolist() == [1, 1, -1, -1, 1]
    lanes = np.array([0, 1, 4])
    found = row_column(buffer, start[lanes], length[lanes], arity=1, index=0, data_type=fields.fields[0].type)
    assert found is not None
    assert found.to_pylist() == ["longer than one slot", None, "longer than one slot"]
