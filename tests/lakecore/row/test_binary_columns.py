"""Many serialised rows as columns: the values are those of `decode_row`, and bytes that are no rows are refused."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.errors import CorruptDataError
from lakecore.row.binary_columns import decode_columns
from lakecore.row.binary_row import decode_row, encode_row
from lakecore.row.values import array_values
from lakecore.types.datatypes import RowType
from tests.support.typed_values import row_of, row_types, rows_of

RowList = tuple[RowType, list[tuple[Any, ...]]]


def many_rows() -> st.SearchStrategy[RowList]:
    return row_types().flatmap(
        lambda kind: st.lists(rows_of(kind), max_size=6).map(lambda rows: (kind, rows))
    )


def decoded(data: list[bytes], kind: RowType) -> list[tuple[Any, ...]]:
    columns = decode_columns(data, kind, "rows")
    values = [array_values(column, field.type) for column, field in zip(columns, kind.fields, strict=True)]
    return [tuple(column[at] for column in values) for at in range(len(data))]


@settings(max_examples=150, deadline=None)
@given(many_rows())
def test_values_are_those_of_single_rows(case: RowList) -> None:
    kind, rows = case
    data = [encode_row(row, kind) for row in rows]
    assert decoded(data, kind) == [decode_row(one, kind) for one in data]


def test_further_fields_are_left_out() -> None:
    """A table may have new columns at the end, which the reader does not know; 60 fields need another word of null bits."""
    wide = row_of(*["INT"] * 60)
    narrow = row_of("INT", "INT")
    data = [encode_row((1, None, *[3] * 58), wide), encode_row((4, 5), narrow)]
    assert decoded(data, narrow) == [(1, None), (4, 5)]
    with pytest.raises(CorruptDataError, match="a row has 2 fields"):
        decoded(data, wide)


@settings(max_examples=100, deadline=None)
@given(many_rows(), st.data())
def test_damage_is_refused_or_read(case: RowList, draw: st.DataObject) -> None:
    """Bytes at random lead to other values, or to a CorruptDataError."""
    kind, rows = case
    data = [bytearray(encode_row(row, kind)) for row in rows]
    for one in data:
        one[draw.draw(st.integers(0, len(one) - 1))] ^= draw.draw(st.integers(1, 255))
        del one[draw.draw(st.integers(len(one) - 9, len(one))) :]
    with contextlib.suppress(CorruptDataError):
        decode_columns([bytes(one) for one in data], kind, "rows")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "less than 4 bytes"),
        ("00000001 00", "shorter than its fields"),
        ("00000001 0000000000000000 ff00000010000000", "outside of its row"),
        ("00000001 0000000000000000 0000000000000089", "more than 7 bytes"),
        ("00000001 0000000000000000 ff00000000000081", "utf-8|UTF8"),
    ],
)  # fmt: skip
def test_what_is_no_text(text: str, problem: str) -> None:
    with pytest.raises(CorruptDataError, match=problem):
        decode_columns([bytes.fromhex(text)], row_of("STRING"), "rows")
