"""Spans find what the decoder of whole structs finds, and put the same bytes together again."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.format.parquet.thrift_compact import (
    Field,
    Struct,
    ThriftList,
    WireType,
    decode_struct,
    encode_struct,
)
from lakecore.format.parquet.thrift_spans import (
    Fields,
    Inside,
    binary,
    binary_value,
    encode_changed,
    list_of,
    number,
    struct_list,
    walk,
)

NUMBERS = (0, 1, -1, 63, 64, -64, -65, 127, 128, 300, -(2**15), 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
KINDS = [kind for kind in WireType if kind not in (WireType.MAP, WireType.SET)]


def some_value(dice: random.Random, kind: WireType, depth: int) -> Any:
    if kind in (WireType.TRUE, WireType.FALSE):
        return kind is WireType.TRUE
    if kind in (WireType.I16, WireType.I32, WireType.I64):
        return dice.choice(NUMBERS)
    if kind is WireType.BYTE:
        return dice.randrange(256)
    if kind is WireType.DOUBLE:
        return dice.randbytes(8)
    if kind is WireType.BINARY:
        return dice.randbytes(dice.choice((0, 1, 5, 127, 128, 300)))
    if kind is WireType.STRUCT:
        return some_struct(dice, depth + 1)
    inner = dice.choice([one for one in KINDS if depth < 3 or one < WireType.LIST])
    if inner is WireType.FALSE:
        inner = WireType.TRUE
    count = dice.choice((0, 1, 3, 14, 15, 40))
    return ThriftList(inner, [some_value(dice, inner, depth + 1) for _ in range(count)])


def some_struct(dice: random.Random, depth: int = 0) -> Struct:
    fields = sorted(dice.sample(range(1, 60), dice.randrange(5)))
    found: Struct = {}
    for field in fields:
        kind = dice.choice([one for one in KINDS if depth < 3 or one < WireType.LIST])
        value = some_value(dice, kind, depth)
        found[field] = Field(kind, value)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_a_struct_is_put_together_of_its_spans(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(20):
        known = some_struct(dice)
        data = encode_struct(known)
        fields, end = walk(b"??" + data + b"rest", 2)
        assert end == len(data) + 2
        assert encode_changed(b"??" + data + b"rest", fields, {}) == data
        assert fields.keys() == known.keys()
        for field, (kind, *_, value) in fields.items():
            if kind in (WireType.I16, WireType.I32, WireType.I64):
                assert value == known[field].value
            if kind == WireType.BINARY:
                assert binary(b"??" + data + b"rest", fields[field]) == known[field].value


def test_changes_add_replace_and_leave_out() -> None:
    data = encode_struct(
        {1: Field(WireType.I32, 5), 9: Field(WireType.BINARY, b"x"), 40: Field(WireType.I64, 7)}
    )
    fields, _ = walk(data, 0)
    changes = {
        1: None,
        9: (int(WireType.BINARY), binary_value(b"y" * 200)),
        30: (int(WireType.I64), number(-(2**40))),
    }
    assert decode_struct(encode_changed(data, fields, changes)) == {
        9: Field(WireType.BINARY, b"y" * 200),
        30: Field(WireType.I64, -(2**40)),
        40: Field(WireType.I64, 7),
    }


@pytest.mark.parametrize("count", [0, 1, 14, 15, 200])
def test_lists_of_structs(count: int) -> None:
    structs = [encode_struct({2: Field(WireType.I32, one)}) for one in range(count)]
    data = encode_changed(b"", {}, {4: (int(WireType.LIST), list_of(structs))})
    inside: Inside = {4: struct_list({})}
    found: list[Fields] = walk(data, 0, inside)[0][4][3]
    assert [one[2][3] for one in found] == list(range(count))


def test_a_footer_of_pyarrow_stays_as_it_is(tmp_path: Path) -> None:
    rows = pa.table({"a": range(1000), "b": [{"x": [str(n)], "y": None} for n in range(1000)]})
    pq.write_table(rows, tmp_path / "f", row_group_size=40, write_page_index=True)
    data = (tmp_path / "f").read_bytes()
    length = struct.unpack("<I", data[-8:-4])[0]
    footer = data[-8 - length : -8]
    inside: Inside = {4: struct_list({1: struct_list({3: walk})})}
    fields, end = walk(footer, 0, inside)
    assert end == len(footer)
    assert encode_changed(footer, fields, {}) == encode_struct(decode_struct(footer)) == footer
    assert len(fields[4][3]) == 25


def test_damaged_bytes_are_refused(tmp_path: Path) -> None:
    dice = random.Random(5)
    rows = pa.table({"a": range(100), "b": ["x"] * 100})
    pq.write_table(rows, tmp_path / "f", row_group_size=40, write_page_index=True)
    data = (tmp_path / "f").read_bytes()
    footer = data[-8 - struct.unpack("<I", data[-8:-4])[0] : -8]
    inside: Inside = {4: struct_list({1: struct_list({3: walk})})}
    refused = 0
    for _ in range(3000):
        broken = bytearray(footer)
        for _ in range(dice.randrange(1, 4)):
            broken[dice.randrange(len(broken))] = dice.randrange(256)
        cut = bytes(broken[: dice.choice((len(broken), dice.randrange(len(broken))))])
        try:
            walk(cut, 0, inside)
        except (ValueError, IndexError):
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x15",  # a number is missing
        b"\x15\x80",  # it does not end
        b"\x15" + b"\xff" * 12 + b"\x00",  # it is too long
        b"\x18\x05ab",  # bytes are missing
        b"\x19\xfc\xff\xff\xff\xff\x0f",  # a list of 4 G structs
        b"\x1b\x00",  # a map
        b"\x1c" * 100 + b"\x00" * 101,  # nested too deeply
    ],
)  # fmt: skip
def test_bytes_that_are_no_struct(data: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        walk(data, 0)
