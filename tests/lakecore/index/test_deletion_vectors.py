"""Deletion vectors: the bytes of the format, damage, and what Java wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lakecore.errors import CorruptDataError, UnsupportedError
from lakecore.index.deletion_vectors import (
    VectorLayout,
    decode_vector,
    decode_vectors,
    encode_vector,
    encode_vectors,
)
from lakecore.metadata.manifest.index_file import DeletionRange

# one vector of the rows 3 and 5, as Java wrote it
FILES = {
    VectorLayout.V1: ("01000000185e43f2d03a300000010000000000010010000000030005 00267e36de", 24),
    VectorLayout.V2: (
        "0100000024d1d3396401000000000000000000000 03a30000001000000000001001000000003000500 9467f8a4",
        44,
    ),
}


@pytest.mark.parametrize("layout", VectorLayout)
def test_the_bytes_of_the_format(layout: VectorLayout) -> None:
    text, length = FILES[layout]
    place = DeletionRange("f", 1, length, 2)
    data = bytes.fromhex(text.replace(" ", ""))
    assert encode_vectors({"f": BitMap([3, 5])}, layout) == (data, (place,))
    assert decode_vectors(data, {"f": place}, "x") == {"f": BitMap([3, 5])}


@given(
    st.lists(st.sets(st.integers(0, 2**31 - 2) | st.integers(0, 70_000)), max_size=4),
    st.sampled_from(VectorLayout),
)
def test_vectors_come_back(rows: list[set[int]], layout: VectorLayout) -> None:
    vectors = {f"f{number}": BitMap(positions) for number, positions in enumerate(rows)}
    data, ranges = encode_vectors(vectors, layout)
    assert [place.cardinality for place in ranges] == [len(positions) for positions in rows]
    assert decode_vectors(data, {place.data_file: place for place in ranges}, "x") == vectors


def test_a_long_range_stays_small() -> None:
    vector = encode_vector(BitMap(range(10_000_000)), VectorLayout.V1, "f")
    assert len(vector) < 5000
    assert len(decode_vector(vector, "x")) == 10_000_000


@pytest.mark.parametrize("layout", VectorLayout)
def test_every_changed_or_missing_byte_is_damage(layout: VectorLayout) -> None:
    data = encode_vector(BitMap([3, 5, 100_000]), layout, "f")
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        for damaged in (bytes(changed), data[:at]):
            with pytest.raises(CorruptDataError, match="db/index-1"):
                decode_vector(damaged, "db/index-1")


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        (DeletionRange("f", 0, 24), "at offset 0"),
        (DeletionRange("f", 1, -1), "-1 bytes"),
        (DeletionRange("f", 1, 25), "24 bytes, but 25 bytes are recorded"),
        (DeletionRange("f", 2, 24), "deletion vector"),
        (DeletionRange("f", 999, 24), "deletion vector"),
        (DeletionRange("f", 1, 24, 3), "with 2 rows, but the index manifest records 3"),
    ],
)
def test_a_wrong_place_is_damage(place: DeletionRange, problem: str) -> None:
    data, _ = encode_vectors({"f": BitMap([3, 5])}, VectorLayout.V1)
    with pytest.raises(CorruptDataError, match=problem):
        decode_vectors(data, {"f": place}, "x")


def test_what_is_beyond_a_layout_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"row 4000000000 of f .*bitmap64"):
        encode_vectors({"f": BitMap([4_000_000_000])}, VectorLayout.V1)
    with pytest.raises(CorruptDataError, match="version 02"):
        decode_vectors(b"\x02", {"f": DeletionRange("f", 1, 1)}, "x")
