"""The decoder of all page locations at once tells what the decoder of any thrift struct tells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecore.format.parquet.page_locations import page_locations
from lakecore.format.parquet.thrift_compact import Field, ThriftList, WireType, encode_struct

_POSITIVE = st.integers(0, 2**62 - 1)


def _index(pages: list[tuple[int, int, int]], *, more: bool = False) -> bytes:
    kinds = (WireType.I64, WireType.I32, WireType.I64)
    structs = [
        {i + 1: Field(kind, value) for i, (kind, value) in enumerate(zip(kinds, page, strict=True))}
        for page in pages
    ]
    index = {1: Field(WireType.LIST, ThriftList(WireType.STRUCT, structs))}
    if more:
        index[2] = Field(WireType.LIST, ThriftList(WireType.I64, [page[1] for page in pages]))
    return encode_struct(index)


@given(
    st.lists(st.tuples(_POSITIVE, st.integers(0, 2**31 - 1), _POSITIVE), min_size=1, max_size=60),
    st.booleans(),
)
def test_pages_are_as_they_were_encoded(pages: list[tuple[int, int, int]], more: bool) -> None:
    found = page_locations(_index(pages, more=more))
    assert np.stack(found, axis=1).tolist() == [list(page) for page in pages]


def test_negative_numbers_of_damaged_files_stay_negative() -> None:
    offsets, sizes, rows = page_locations(_index([(-5, -1, -(2**40))]))
    assert (offsets[0], sizes[0], rows[0]) == (-5, -1, -(2**40))


def test_locations_with_further_fields_are_read_one_by_one() -> None:
    page = {
        1: Field(WireType.I64, 4),
        2: Field(WireType.I32, 9),
        3: Field(WireType.I64, 0),
        7: Field(WireType.I32, 1),
    }
    data = encode_struct({1: Field(WireType.LIST, ThriftList(WireType.STRUCT, [page] * 20))})
    offsets, sizes, rows = page_locations(data)
    assert (offsets.tolist(), sizes.tolist(), rows.tolist()) == ([4] * 20, [9] * 20, [0] * 20)


@pytest.mark.parametrize("cut", range(1, 40))
def test_an_index_that_is_cut_off_is_an_error(cut: int) -> None:
    data = _index([(1000 + i, 500, 20_000 * i) for i in range(20)])
    with pytest.raises((ValueError, KeyError)):
        page_locations(data[: len(data) * cut // 40])


def test_a_number_longer_than_its_type_is_no_silent_wrap() -> None:
    data = bytes([0x19, 0x1C, 0x16, *[0xFF] * 9, 0x7F, 0x15, 0x02, 0x16, 0x00, 0x00, 0x00])
    with pytest.raises((ValueError, OverflowError)):
        page_locations(data)
