"""Blocks that are inflated and searched together: no wanted record is missed, and damage is found as in a whole read."""

from __future__ import annotations

import bz2
import lzma
import random
import zlib
from collections.abc import Callable, Iterator, Sequence

import cramjam
import pytest
from backports import zstd

from lakecore.errors import CorruptDataError
from lakecore.format.avro.container import AvroBlock, AvroContainer, encode_container, open_container
from lakecore.format.manifest import groups
from lakecore.format.manifest import manifests as codec
from lakecore.format.manifest.manifests import decode_manifests
from lakecore.format.manifest.schemas import MANIFEST_SCHEMA
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.entry_request import EntryRequest
from lakecore.predicate.tree import Compare, Comparison, In, Predicate
from lakecore.row.binary_row import encode_row
from lakecore.scan.filters import EVERYTHING
from lakecore.scan.partition_request import entry_request
from lakecore.scan.pruning import prune_partitions
from lakecore.types.datatypes import DataField, RowType, parse_type
from tests.support.builders import data_file, manifest_entry

KIND = RowType((DataField(0, "day", parse_type("STRING")),))


@pytest.fixture(autouse=True)
def in_lock_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a single entry is decoded the way that many are."""
    monkeypatch.setattr(codec, "MANY_ENTRIES", 0)


def encoded(days: Sequence[str], start: int = 0) -> list[bytes]:
    rows = [
        manifest_entry(data_file(f"f{start + i}"), partition=encode_row((day,), KIND))
        for i, day in enumerate(days)
    ]
    return list(codec._entry_bytes(ManifestEntries.from_rows(rows)))


def request_of(predicate: Predicate) -> EntryRequest:
    request = entry_request(EVERYTHING, predicate, KIND, keys=False)
    assert request.pieces
    return request


def day(number: int) -> str:
    return f"day-{number:06}"


def blocks_of(records: Sequence[bytes], draw: random.Random) -> list[tuple[int, bytes]]:
    """The records in blocks of one to nine."""
    blocks, low = [], 0
    while low < len(records):
        high = low + draw.randrange(1, 10)
        blocks.append((len(records[low:high]), b"".join(records[low:high])))
        low = high
    return blocks


def _snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big")


def _deflate(data: bytes) -> bytes:
    machine = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    return machine.compress(data) + machine.flush()


PACK: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": zstd.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


def container_of(blocks: Sequence[tuple[int, bytes]], codec_name: str) -> bytes:
    """A manifest of these blocks of records, packed with a codec."""
    data = encode_container(MANIFEST_SCHEMA, [AvroBlock(n, PACK[codec_name](data)) for n, data in blocks])
    old, new = (bytes([2 * len(name)]) + name for name in (b"zstandard", codec_name.encode()))
    assert data.count(old) == 1
    return data.replace(old, new)


@pytest.mark.parametrize("codec_name", PACK)
def test_no_entry_of_a_partition_is_missed(codec_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found_some = left_some = together = 0
    inflate_all = AvroContainer.inflate_all

    def count(self: AvroContainer, blocks: Sequence[AvroBlock], out: bytearray) -> int | None:
        nonlocal together
        size = inflate_all(self, blocks, out)
        together += size is not None
        return size

    monkeypatch.setattr(AvroContainer, "inflate_all", count)
    for seed in range(10):
        draw = random.Random(seed)
        days = [day(draw.randrange(60)) for _ in range(draw.randrange(1, 700))]
        if draw.random() < 0.7:
            days.sort()
        monkeypatch.setattr(groups, "_SEARCHED_TOGETHER", draw.choice([2, 3, 8]))
        monkeypatch.setattr(groups, "_SEARCH_ROOM", draw.choice([1 << 20, 4000, 9000]))
        cut = draw.randrange(len(days) + 1)
        files = [
            (container_of(blocks_of(encoded(part, start), draw), codec_name), f"m{start}")
            for part, start in ((days[:cut], 0), (days[cut:], cut))
            if part
        ]
        predicate: Predicate = Compare("day", Comparison.EQ, day(draw.randrange(60)))
        if draw.random() < 0.3:
            predicate = In("day", (day(draw.randrange(60)), day(3)))
        whole = decode_manifests(files)
        assert len(whole) == len(days)
        some = decode_manifests(files, request_of(predicate))
        wanted = prune_partitions(whole, predicate, KIND)
        assert some.rows() == wanted.rows()
        assert len(some) + some.left_out == len(days)
        found_some += len(some)
        left_some += some.left_out
    assert found_some > 40
    assert left_some > 1200
    assert (together > 20) == (codec_name == "zstandard")


def with_block(at: int, bad: Sequence[AvroBlock]) -> bytes:
    """A manifest of twenty blocks of other days, with `bad` in place of one of them."""
    good = [AvroBlock(2, zstd.compress(b"".join(encoded([day(i)] * 2)))) for i in range(20)]
    return encode_container(MANIFEST_SCHEMA, [*good[:at], *bad, *good[at + 1 :]])


def forged_blocks() -> Iterator[tuple[str, list[AvroBlock]]]:
    records = b"".join(encoded([day(77)] * 4))
    frame = zstd.compress(records)
    skippable = b"\x50\x2a\x4d\x18\x04\0\0\0" + b"skip"
    yield "a frame that is cut off", [AvroBlock(4, frame[:-1])]
    yield "a frame of which a part is in the next block", [AvroBlock(2, frame[:40]), AvroBlock(2, frame[40:])]
    yield "no frame", [AvroBlock(4, b"day-000077")]
    yield "more records than bytes", [AvroBlock(1 << 20, frame)]
    yield "blocks without a record", [AvroBlock(100_000, zstd.compress(b"")) for _ in range(8)]
    yield "skippable frames alone", [AvroBlock(100_000, skippable) for _ in range(8)]


def bytes_after(low: int) -> Iterator[tuple[str, list[AvroBlock]]]:
    """Blocks that the inflater of one block takes, though they are not exactly one frame."""
    records = encoded([day(77)] * 4, low)
    frame = zstd.compress(b"".join(records))
    yield "a frame and other bytes", [AvroBlock(4, frame + b"rest")]
    yield "a frame and another one", [AvroBlock(4, frame + zstd.compress(b"".join(encoded([day(78)]))))]
    yield "a frame without its size", [AvroBlock(4, _without_size(b"".join(records)))]
    yield "a large block", [AvroBlock(4 * 60, zstd.compress(b"".join(records) * 60))]


def _without_size(data: bytes) -> bytes:
    machine = zstd.ZstdCompressor()
    return machine.compress(data) + machine.flush()


@pytest.mark.parametrize("at", [0, 7, 8, 19])
@pytest.mark.parametrize(("name", "bad"), list(forged_blocks()))
def test_damage_in_a_block_that_is_not_wanted_is_found(name: str, bad: list[AvroBlock], at: int) -> None:
    """Whatever blocks are searched together with it: the error names the file, as that of a whole read does."""
    files = [(with_block(at, bad), "damaged")]
    with pytest.raises(CorruptDataError, match="damaged: "):
        decode_manifests(files)
    with pytest.raises(CorruptDataError, match="damaged: "):
        decode_manifests(files, request_of(Compare("day", Comparison.EQ, day(99))))


@pytest.mark.parametrize("at", [0, 7, 8, 19])
@pytest.mark.parametrize(("name", "odd"), list(bytes_after(1)))
@pytest.mark.parametrize("wanted", [0, 77, 78, 99])
def test_blocks_that_are_not_one_usual_frame_are_searched_alone(
    name: str, odd: list[AvroBlock], at: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_SEARCH_ROOM", 40_000)
    files = [(with_block(at, odd), "m")]
    predicate = Compare("day", Comparison.EQ, day(wanted))
    whole, some = decode_manifests(files), decode_manifests(files, request_of(predicate))
    assert some.names() == prune_partitions(whole, predicate, KIND).names()
    assert len(some) + some.left_out == len(whole)


def test_blocks_are_inflated_together_only_where_that_gives_what_each_one_gives() -> None:
    records = [b"".join(encoded([day(i)] * 3)) for i in range(6)]
    data = container_of([(3, part) for part in records], "zstandard")
    container = open_container(data, "m")
    size = sum(map(len, records))
    out = bytearray(size)
    assert container.inflate_all(container.blocks, out) == size
    assert out == b"".join(records)
    assert out == b"".join(map(container.inflate, container.blocks))
    assert container.inflate_all(container.blocks, bytearray(size - 1)) is None
    assert container.inflate_all(container.blocks, bytearray()) is None
    for _, bad in (*list(forged_blocks())[:3], *list(bytes_after(1))[:2]):
        assert container.inflate_all([*container.blocks, *bad], bytearray(1 << 20)) is None
    for name in set(PACK) - {"zstandard"}:
        other = open_container(container_of([(3, part) for part in records], name), "m")
        assert other.inflate_all(other.blocks, bytearray(1 << 20)) is None


def test_a_piece_at_the_end_of_blocks_is_found_and_what_lies_behind_is_not_searched() -> None:
    request = EntryRequest(pieces=((b"2026",),))
    assert request.may_hold(b"..2026")
    assert request.may_hold(bytearray(b"..2026.."), 6)
    assert not request.may_hold(bytearray(b"..2026"), 5)
    assert not request.may_hold(bytearray(b"..202.2026"), 6)
    both = EntryRequest(pieces=((b"2026", b"2027"), (b"east",)))
    assert both.may_hold(b"2027 east")
    assert not both.may_hold(b"2027 2026")


def test_room_that_was_used_before_is_not_searched() -> None:
    """A wanted partition in one set of blocks does not make later, smaller sets of the manifest wanted."""
    parts = [[day(5)] * 40] * 8 + [[day(6)]] * 16
    data = container_of([(len(part), b"".join(encoded(part))) for part in parts], "zstandard")
    container = open_container(data, "m")
    request = request_of(Compare("day", Comparison.EQ, day(5)))
    found = groups._search(container, request)
    assert [data is not None for _, data in found] == [True] * 8 + [False] * 16
    assert [block for block, _ in found] == list(container.blocks)
    either = request_of(In("day", (day(9), day(6))))
    assert [data is not None for _, data in groups._search(container, either)] == [False] * 8 + [True] * 16
