"""The thrift compact codec: what it does not know survives; damage is a ValueError."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecore.format.parquet.thrift_compact import (
    Field,
    Struct,
    ThriftList,
    WireType,
    decode_struct,
    encode_struct,
)

INTEGERS = st.integers(-(2**63), 2**63 - 1)


def fields(depth: int) -> st.SearchStrategy[Field]:
    simple = st.one_of(
        st.booleans().map(lambda v: Field(WireType.TRUE if v else WireType.FALSE, v)),
        INTEGERS.map(lambda v: Field(WireType.I64, v)),
        st.integers(0, 255).map(lambda v: Field(WireType.BYTE, v)),
        st.binary(max_size=20).map(lambda v: Field(WireType.BINARY, v)),
        st.binary(min_size=8, max_size=8).map(lambda v: Field(WireType.DOUBLE, v)),
        st.lists(INTEGERS, max_size=20).map(lambda v: Field(WireType.LIST, ThriftList(WireType.I32, v))),
        st.lists(st.booleans(), max_size=20).map(
            lambda v: Field(WireType.LIST, ThriftList(WireType.TRUE, v))
        ),
    )
    if depth == 0:
        return simple
    inner = structs(depth - 1)
    return st.one_of(
        simple,
        inner.map(lambda v: Field(WireType.STRUCT, v)),
        st.lists(inner, max_size=3).map(lambda v: Field(WireType.LIST, ThriftList(WireType.STRUCT, v))),
    )


def structs(depth: int) -> st.SearchStrategy[Struct]:
    return st.dictionaries(st.integers(1, 300), fields(depth), max_size=5)


@given(structs(2))
def test_round_trip(struct: Struct) -> None:
    assert decode_struct(encode_struct(struct)) == struct


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_raise_value_error(data: bytes) -> None:
    try:
        decode_struct(data)
    except ValueError:
        return


def test_lists_that_claim_more_than_there_is() -> None:
    with pytest.raises(ValueError, match="list claims 1000000"):
        decode_struct(b"\x19\xf5\xc0\x84\x3d")
