"""Blob files: values come back, and damage is noticed. Java reads and writes them in tests/interop."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecore.errors import CorruptDataError, UnsupportedError
from lakecore.format.blob.file import BlobSource, BlobWriter, load_blob_index
from lakecore.format.blob.lists import decode_blobs, encode_blobs
from lakecore.format.blob.sidecar import decode_packs, encode_packs
from lakecore.fs.memory import MemoryFileIO
from lakecore.types.datatypes import ArrayType, MapType, parse_type

PATH = "memory://blobs/x.blob"
VALUES = st.lists(st.none() | st.binary(max_size=200))


def written(values: list[bytes | None]) -> MemoryFileIO:
    file_io = MemoryFileIO("blobs")
    file_io.clear()
    writer = BlobWriter(file_io.open_output(PATH))
    writer.write(values)
    assert writer.close() == len(file_io.read(PATH))
    return file_io


def stored(file_io: MemoryFileIO) -> list[bytes | None]:
    index = load_blob_index(file_io, PATH)
    source = BlobSource(file_io, PATH)
    places = zip(index.starts.tolist(), index.sizes.tolist(), strict=True)
    return [None if size < 0 else source.read(start, size) for start, size in places]


@given(VALUES)
def test_values_come_back(values: list[bytes | None]) -> None:
    assert stored(written(values)) == values


KEYED = MapType(parse_type("STRING"), parse_type("BLOB"))
BLOBS = ArrayType(parse_type("BLOB"))


def unpacked(record: bytes, kind: Any) -> Any:
    parts = decode_blobs(record, kind, PATH)
    blobs = [None if place is None else record[place[0] : sum(place)] for place in parts.places]
    return list(zip(parts.keys, blobs, strict=True)) if kind == KEYED else blobs


@given(VALUES, st.lists(st.text(), unique=True), st.data())
def test_lists_and_maps_come_back(values: list[bytes | None], keys: list[str], data: st.DataObject) -> None:
    """Damage of them is an error, or other bytes, which the checksum of the record tells; never a crash."""
    pairs = list(zip(keys, values, strict=False))
    for kind, value in ((BLOBS, values), (KEYED, pairs)):
        record = encode_blobs(value, kind)
        assert unpacked(record, kind) == value
        at = data.draw(st.integers(0, len(record) - 1))
        with suppress(CorruptDataError, UnsupportedError):
            unpacked(record[:at] + bytes([data.draw(st.integers(0, 255))]) + record[at + 1 :], kind)
        with pytest.raises((CorruptDataError, UnsupportedError)):
            unpacked(record[:at], kind)


@given(VALUES, st.data())
def test_damage_is_noticed(values: list[bytes | None], data: st.DataObject) -> None:
    """One changed byte, or a cut, is an error or changes nothing but nulls, which have no checksum."""
    good = written(values).read(PATH)
    at = data.draw(st.integers(0, len(good) - 1))
    cut = data.draw(st.booleans())
    bad = (
        good[:at] if cut else good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]
    )
    file_io = MemoryFileIO("blobs")
    file_io.clear()
    file_io.write_new(PATH, bad)
    try:
        found = stored(file_io)
    except CorruptDataError:
        return
    assert [value for value in found if value is not None] == [v for v in values if v is not None]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: data, ""),
        (lambda data: b"x" + data[1:], "not a list of the packs"),
        (lambda data: data[:9], "not a list of the packs"),
        (lambda data: data[:20] + b"?" + data[21:], "a wrong checksum"),
        (lambda data: _resealed(data[4:-6]), "cannot be decoded"),
        (lambda data: _resealed(data[4:8] + b"\x09" + data[9:-4]), "4 names, but 18 are recorded"),
    ],
)
def test_the_packs_of_a_file(change: Callable[[bytes], bytes], problem: str) -> None:
    packs = (("file:/a\0b", "x.managed.blob"), ("file:/a\U0001f600", "y.managed.blob"))
    data = change(encode_packs(reversed(packs)))
    if not problem:
        assert decode_packs(data, "p") == packs
        return
    with pytest.raises(CorruptDataError, match=problem):
        decode_packs(data, "p")


def _resealed(body: bytes) -> bytes:
    return b"PBLR" + body + zlib.crc32(body).to_bytes(4, "big")
