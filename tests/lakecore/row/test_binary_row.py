"""Bytes of rows: vectors written by Java (metadata.md 4), round trips, and bytes that are none."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.errors import CorruptDataError, InvalidInputError
from lakecore.row.binary_batch import encode_batch
from lakecore.row.binary_row import decode_binary_row, decode_row, encode_binary_row, encode_row
from lakecore.row.hashing import hash_rows
from lakecore.row.values import batch_rows, rows_batch
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import RowType
from tests.support.typed_values import row_of, row_types, rows_of

MILLIS = 0x018CC251F47B
JAVA: list[tuple[tuple[Any, ...], tuple[Any, ...], str]] = [
    (("INT",), (1,), "0000000000000000 0100000000000000"),
    (("INT",), (None,), "0001000000000000 0000000000000000"),
    (("STRING",), ("1234567",), "0000000000000000 3132333435363787"),
    (("STRING",), ("12345678",), "0000000000000000 0800000010000000 3132333435363738"),
    (("STRING",), ("",), "0000000000000000 0000000000000080"),
    (("INT", "STRING"), (7, "2024-01-01"), "0000000000000000 0700000000000000 0a00000018000000 323032342d30312d 3031000000000000"),
    (("DECIMAL(10, 2)",), (Decimal("1.25"),), "0000000000000000 7d00000000000000"),
    (("DECIMAL(20, 2)",), (Decimal("1.25"),), "0000000000000000 0100000010000000 7d00000000000000 0000000000000000"),
    (("DECIMAL(20, 2)",), (Decimal("-1.25"),), "0000000000000000 0100000010000000 8300000000000000 0000000000000000"),
    (("DECIMAL(20, 2)",), (None,), "0001000000000000 0000000010000000 0000000000000000 0000000000000000"),
    (("TIMESTAMP(6)",), (MILLIS * 10**6 + 456000,), "0000000000000000 40f5060010000000 7bf451c28c010000"),
    (("TIMESTAMP(6)",), (None,), "0001000000000000 0000000010000000 0000000000000000"),
    (({"type": "ARRAY", "element": "INT"},), ([1, None, 3],), "0000000000000000 1800000010000000 0300000002000000 0100000000000000 0300000000000000"),
    (({"type": "MAP", "key": "INT", "value": "INT"},), ([(1, 2)],), "0000000000000000 2400000010000000 1000000001000000 0000000001000000 0000000001000000 0000000002000000 0000000000000000"),
    (({"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "INT"}]},), ((5,),), "0000000000000000 1000000010000000 0000000000000000 0500000000000000"),
    (("BYTES",), (b"\1\2\3",), "0000000000000000 0102030000000083"),
]  # fmt: skip
HASHES = {0: 1465514398, 1: -1748325344, 2: 199144172, 3: -391021801, 4: 302122119}


@pytest.mark.parametrize("index", range(len(JAVA)))
def test_bytes_of_java(index: int) -> None:
    kinds, values, text = JAVA[index]
    row_type, data = row_of(*kinds), bytes.fromhex(text)
    assert encode_binary_row(values, row_type) == data
    assert decode_binary_row(data, row_type) == values
    batch = rows_batch([values], row_type, arrow_schema(row_type))
    assert encode_batch(batch.columns, row_type).words.tobytes() == data
    if index in HASHES:
        assert hash_rows(batch.columns, row_type).tolist() == [HASHES[index]]


def test_the_empty_row_has_twelve_zero_bytes() -> None:
    assert encode_row((), RowType(())) == bytes(12)
    assert decode_row(bytes(12), RowType(())) == ()


def test_null_bits_take_a_second_word_from_57_fields_on() -> None:
    assert len(encode_binary_row((None,) * 56, row_of(*["INT"] * 56))) == 8 + 56 * 8
    assert len(encode_binary_row((None,) * 57, row_of(*["INT"] * 57))) == 16 + 57 * 8


def test_fields_beyond_the_type_are_left_out() -> None:
    data = encode_row((1, "x", 5), row_of("INT", "STRING", "BIGINT"))
    assert decode_row(data, row_of("INT", "STRING")) == (1, "x")
    with pytest.raises(CorruptDataError, match="a row has 3 fields where 4"):
        decode_row(data, row_of("INT", "STRING", "BIGINT", "INT"), "here")


@settings(max_examples=60)
@given(st.data())
def test_round_trip_of_any_type(data: st.DataObject) -> None:
    row_type = data.draw(row_types())
    rows = data.draw(st.lists(rows_of(row_type), min_size=1, max_size=3))
    for row in rows:
        assert decode_row(encode_row(row, row_type), row_type) == row
    batch = rows_batch(rows, row_type, arrow_schema(row_type))
    assert batch_rows(batch, row_type) == rows
    vectorised = encode_batch(batch.columns, row_type).words.tobytes()
    assert vectorised == b"".join(encode_binary_row(row, row_type) for row in rows)


@settings(max_examples=60)
@given(st.data())
def test_slices_encode_like_whole_batches(data: st.DataObject) -> None:
    row_type = data.draw(row_types(max_size=2))
    rows = data.draw(st.lists(rows_of(row_type), min_size=3, max_size=5))
    part = rows_batch(rows, row_type, arrow_schema(row_type)).slice(1, 2)
    assert batch_rows(part, row_type) == rows[1:3]
    encoded = encode_batch(part.columns, row_type)
    assert encoded.words.tobytes() == b"".join(encode_binary_row(row, row_type) for row in rows[1:3])


@settings(max_examples=100)
@given(st.data())
def test_random_bytes_are_corrupt_or_a_row(data: st.DataObject) -> None:
    row_type = data.draw(row_types())
    raw = data.draw(st.binary(max_size=120))
    with contextlib.suppress(CorruptDataError):
        decode_row(raw, row_type, "somewhere")


@settings(max_examples=100)
@given(st.data())
def test_damaged_rows_are_corrupt_or_a_row(data: st.DataObject) -> None:
    row_type = data.draw(row_types())
    raw = bytearray(encode_row(data.draw(rows_of(row_type)), row_type))
    raw[data.draw(st.integers(4, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptDataError):
        decode_row(bytes(raw), row_type)


def test_overlapping_arrays_do_not_explode() -> None:
    # Every element of an array claims to be the whole array: reading it naively takes n ** 3 steps.
    element: Any = "INT"
    for _ in range(3):
        element = {"type": "ARRAY", "element": element}
    count, size = 1000, 8264
    array = (
        count.to_bytes(4, "little")
        + bytes(128)
        + (size.to_bytes(4, "little") + bytes(4)) * count
        + bytes(132)
    )
    row = bytes(8) + (size | 16 << 32).to_bytes(8, "little") + array
    with pytest.raises(CorruptDataError, match="elements of an array"):
        decode_binary_row(row, row_of(element))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("TINYINT", 128),
        ("INT", "x"),
        ("DECIMAL(4, 2)", Decimal("100")),
        ("DECIMAL(4, 2)", Decimal("0.001")),
        ("STRING", 5),
    ],
)
def test_values_that_do_not_fit_are_named(kind: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match="field f0 does not fit"):
        encode_row((value,), row_of(kind))
