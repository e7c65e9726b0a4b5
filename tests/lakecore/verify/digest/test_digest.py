"""The digest: equal for equal rows however they are stored, different for everything else."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.errors import UnsupportedError
from lakecore.metadata.row_kind import KIND_FIELD_ID, SEQUENCE_FIELD_ID
from lakecore.verify.digest.digest import ZERO, Tally, column_constant, hash_rows, tally, total

IDS = (1, 2, 3)


def one(array: pa.Array, field_id: int = 1) -> list[int]:
    return [int(value) for value in hash_rows([array], [field_id])]


def same(left: pa.Array, right: pa.Array) -> bool:
    return one(left) == one(right)


def distinct(values: list[Any], kind: pa.DataType) -> None:
    hashes = one(pa.array(values, kind))
    assert len(set(hashes)) == len(values), values


def test_constants_are_odd_and_distinct() -> None:
    ids = [*range(20_000), *(1073741823 + n for n in range(2000)), SEQUENCE_FIELD_ID, KIND_FIELD_ID, -1]
    constants = {column_constant(field_id) for field_id in ids}
    assert len(constants) == len(ids)
    assert all(constant % 2 == 1 for constant in constants)


def test_the_version_is_pinned_by_known_digests() -> None:
    """When this changes, DIGEST_VERSION must change with it."""
    columns = [
        pa.array([1, -7, None], pa.int64()),
        pa.array(["", "a string of more than eight bytes", None]),
        pa.array([Decimal("1.50"), None, Decimal("-3.25")], pa.decimal128(20, 2)),
    ]
    assert str(tally(columns, IDS)) == KNOWN_FLAT
    nested = pa.array([[1, 2], [], None], pa.list_(pa.int32()))
    pairs = pa.array([[("a", 1.0)], [], None], pa.map_(pa.string(), pa.float64()))
    assert str(tally([nested, pairs], (1, 2))) == KNOWN_NESTED


KNOWN_FLAT = "3 rows, digest 0b9bd14bd35cd64f"
KNOWN_NESTED = "3 rows, digest eab25efcc38a9cb4"


def test_integers_of_any_width_agree() -> None:
    values = [0, 1, -1, 127, -128, None]
    for kind in (pa.int8(), pa.int16(), pa.int32()):
        assert same(pa.array(values, kind), pa.array(values, pa.int64()))
    assert same(pa.array([True, False, None]), pa.array([1, 0, None], pa.int8()))


def test_times_of_any_unit_agree() -> None:
    assert same(
        pa.array([5, None], pa.timestamp("ms")), pa.array([5_000_000, None], pa.timestamp("ns", "UTC"))
    )
    assert same(pa.array([-5], pa.timestamp("us")), pa.array([-5000], pa.timestamp("ns")))
    assert same(pa.array([86_399_999], pa.time32("ms")), pa.array([86_399_999_000], pa.time64("us")))
    assert same(pa.array([86_399_999], pa.time32("ms")), pa.array([86_399_999], pa.int32()))
    assert same(pa.array([3], pa.time32("s")), pa.array([3000], pa.time32("ms")))
    assert same(pa.array([-1], pa.date32()), pa.array([-86_400_000], pa.date64()))


def test_floats_agree_as_doubles_with_one_nan() -> None:
    nans = np.array([0x7FC00001, 0xFFC00000], np.uint32).view(np.float32)
    assert len(set(one(pa.array(nans)))) == 1
    assert same(
        pa.array([1.5, None, 0.1], pa.float32()), pa.array([1.5, None, np.float32(0.1)], pa.float64())
    )
    distinct([0.0, -0.0, 1.0, float("inf"), float("-inf"), float("nan")], pa.float64())


STRINGS = ["", "a", "ab", "1234567", "12345678", "123456789", "x" * 63, "x" * 64, "x" * 65, "ü" * 500, None]


def test_strings_agree_in_every_representation() -> None:
    plain = pa.array(STRINGS)
    for kind in (pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()):
        assert same(plain, plain.cast(kind)), kind
    assert same(plain, plain.dictionary_encode())
    assert same(pa.array([b"abc", None]), pa.array([b"abc", None], pa.binary(3)))
    distinct(STRINGS, pa.string())
    distinct([b"a", b"a\0", b"a\0\0", b"", b"\0", b"\0" * 8, b"\0" * 9, b"\0" * 80], pa.binary())


def test_values_of_one_length_take_a_short_cut_to_the_same_hash() -> None:
    for length in (1, 7, 8, 9, 24, 64, 65, 100):
        equal = pa.array([bytes([65 + i] * length) for i in range(5)])
        mixed = pa.concat_arrays([equal, pa.array([b"of another length, certainly not the same" * 3])])
        assert one(equal) == one(mixed)[:5]


def test_large_values_are_hashed_in_parts() -> None:
    values = [bytes([i]) * (3 << 20) for i in range(3)] + [b"x"]
    assert one(pa.array(values)) == [one(pa.array([value, b"-"]))[0] for value in values]


@settings(max_examples=50)
@given(st.lists(st.one_of(st.none(), st.binary(max_size=90)), min_size=1, max_size=20), st.integers(0, 5))
def test_slices_hash_like_the_whole(values: list[bytes | None], start: int) -> None:
    array = pa.array(values, pa.binary())
    assert one(array.slice(start)) == one(array)[start:]
    assert one(pa.array(values[start:], pa.binary())) == one(array)[start:]


NESTED = [
    pa.array([[1, None, 3], [], None, [3, None, 1]], pa.list_(pa.int32())),
    pa.array([[1, 2], None, [2, 1]], pa.list_(pa.int64(), 2)),
    pa.array(
        [{"a": 1, "b": "x"}, None, {"a": None, "b": None}], pa.struct({"a": pa.int8(), "b": pa.string()})
    ),
    pa.array([[("k", 1)], [], None, [("k", 2), ("l", 1)]], pa.map_(pa.string(), pa.int32())),
    pa.array([[["a"], []], [[], ["a"]], [["a"]]], pa.list_(pa.list_(pa.string()))),
]


@pytest.mark.parametrize("array", NESTED, ids=lambda array: str(array.type))
def test_nested_values_differ_and_slices_agree(array: pa.Array) -> None:
    hashes = one(array)
    assert len(set(hashes)) == len(array)
    for start in range(len(array)):
        assert one(array.slice(start, 1)) == hashes[start : start + 1]


def test_maps_do_not_depend_on_the_order_of_pairs() -> None:
    kind = pa.map_(pa.string(), pa.int32())
    pairs = [("a", 1), ("b", 2)]
    assert same(pa.array([pairs], kind), pa.array([pairs[::-1]], kind))
    assert not same(pa.array([pairs], kind), pa.array([[("a", 2), ("b", 1)]], kind))


def test_dictionaries_with_nulls_inside_agree() -> None:
    codes = pa.array([0, 1, None, 2], pa.int8())
    array = pa.DictionaryArray.from_arrays(codes, pa.array(["a", None, "b"]))
    assert same(array, pa.array(["a", None, None, "b"]))


def test_decimals_hash_their_unscaled_value() -> None:
    distinct(
        [Decimal(0), Decimal("0.01"), Decimal("-0.01"), Decimal(2**70), Decimal(-(2**70))],
        pa.decimal128(38, 2),
    )
    narrow = pa.array([Decimal("1.25")], pa.decimal128(10, 2))
    assert same(narrow, narrow.cast(pa.decimal128(38, 2)))


def test_order_and_grouping_do_not_matter() -> None:
    rng = np.random.default_rng(7)
    columns = [pa.array(rng.integers(0, 99, 40_000)), pa.array(rng.integers(0, 9, 40_000)).cast(pa.string())]
    whole = tally(columns, (1, 2))
    order = pa.array(rng.permutation(40_000))
    assert tally([column.take(order) for column in columns], (1, 2)) == whole
    parts = [tally([column.slice(at, 7000) for column in columns], (1, 2)) for at in range(0, 40_000, 7000)]
    assert total(parts) == whole
    assert parts[0] + total(parts[1:]) == whole
    assert total([]) == ZERO == Tally(0, 0)


def test_exchanged_values_change_the_digest() -> None:
    left, right = pa.array([1, 2, 3, 4]), pa.array([4, 3, 2, 9])
    base = tally([left, right], (1, 2))
    assert tally([right, left], (1, 2)) != base
    assert tally([left, pa.array([3, 4, 2, 9])], (1, 2)) != base
    assert tally([left, left], (1, 2)) != base


def test_a_pair_of_equal_rows_does_not_vanish() -> None:
    once = tally([pa.array([5])], (1,))
    assert tally([pa.array([5, 5])], (1,)) == once + once
    assert (once + once).digest != 0
    assert tally([pa.array([0])], (1,)).digest != 0


def test_types_outside_the_format_are_refused() -> None:
    for array in (pa.array([1.0], pa.float16()), pa.array([1], pa.duration("s"))):
        with pytest.raises(UnsupportedError):
            one(array)


def mirrored(columns: str, sign: float) -> list[pa.Array]:
    """Rows of two numbers, times `sign`; of bytes, whose words have the highest bit of one or of the other."""
    values = np.random.default_rng(1).normal(size=2000) * sign
    x, y = pa.array(values[::2]), pa.array(values[1::2])
    single = pa.array(np.arange(len(x) + 1), pa.int32())
    match columns:
        case "columns":
            return [x, y]
        case "row":
            return [pa.StructArray.from_arrays([x, y], ["x", "y"])]
        case "list":
            return [pa.ListArray.from_arrays(pa.array(np.arange(0, 2001, 2), pa.int32()), pa.array(values))]
        case "map":
            return [pa.MapArray.from_arrays(single, x, y)]
        case _:
            words = np.random.default_rng(2).integers(0, 256, (len(x), 16), np.uint8)
            words[:, 7::8] ^= 128 if sign < 0 else 0
            return [pa.array([row.tobytes() for row in words])]


@pytest.mark.parametrize("columns", ["columns", "row", "list", "map", "bytes"])
def test_signs_of_two_numbers_do_not_cancel_out(columns: str) -> None:
    left, right = (
        hash_rows(mirrored(columns, sign), IDS[: 2 if columns == "columns" else 1]) for sign in (1.0, -1.0)
    )
    assert not (left == right).any()
