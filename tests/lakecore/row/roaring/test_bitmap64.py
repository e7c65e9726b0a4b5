"""Bitmaps of 64-bit numbers: unions against sets, bytes that a Java process wrote."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.errors import CorruptDataError
from lakecore.row.roaring.bitmap64 import numbers_of, union64
from tests.support.bitmaps64 import bitmap64

KEYS = st.one_of(
    st.integers(-3, 60), st.integers(-(1 << 47), (1 << 47) - 1), st.integers(0, 300).map(lambda n: n << 24)
)
NUMBERS = st.sets(st.tuples(KEYS, st.one_of(st.integers(0, 9), st.integers(0, 65535))), max_size=120)


@given(NUMBERS, NUMBERS, NUMBERS)
@settings(max_examples=60)
def test_a_union_holds_the_numbers_of_all(
    a: set[tuple[int, int]], b: set[tuple[int, int]], c: set[tuple[int, int]]
) -> None:
    united = union64(union64(bitmap64(a), bitmap64(b), "t"), bitmap64(c), "t")
    wanted = sorted(((key << 16) + low) % (1 << 64) for key, low in a | b | c)
    assert numbers_of(united, "t").tolist() == wanted
    assert union64(united, bitmap64(b), "t") == united


@pytest.mark.parametrize("dense", [4097, 65536])
def test_containers_change_their_kind_as_they_fill(dense: int) -> None:
    numbers = {(7, low * 65535 // dense) for low in range(dense)}
    half = {(7, low) for low in range(0, 65536, 2)}
    found = numbers_of(union64(bitmap64(numbers), bitmap64(half), "t"), "t")
    assert len(found) == len(numbers | half)
    assert (np.diff(found.astype(np.int64)) > 0).all()


@pytest.mark.parametrize(
    ("at", "byte"), [(1, 9), (9, 5), (9, 0), (19, 1), (27, 2), (32, 0), (36, 2), (37, 3), (37, 0), (38, 9)]
)
def test_damage_is_named(at: int, byte: int) -> None:
    data = bytearray(bitmap64({(1, 1), (1, 5)}))
    data[at] = byte
    with pytest.raises(CorruptDataError, match=r"t: not a 64-bit bitmap"):
        numbers_of(bytes(data), "t")
