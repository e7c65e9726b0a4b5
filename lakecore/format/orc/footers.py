"""This module reads the end of an ORC file as values (types, stripes, statistics), and its chunks of
compressed bytes.

Source: the specification of ORC v1. Chunks are written here as they are, without compression.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any

import cramjam
from backports import zstd

from lakecore.data_class import dataclass
from lakecore.format.orc import lzo
from lakecore.format.orc.protobuf import Message, signed

__all__ = [
    "Chunks",
    "Kind",
    "Stream",
    "StreamKind",
    "Stripe",
    "StripeFooter",
    "Tail",
    "read_tail",
    "stripe_footer",
]

_TAIL_BYTES = 64 << 10
_CHUNK_HEADER = 3
_DEFAULT_BLOCK = 256 << 10
# numbers of orc_proto
_PS_FOOTER, _PS_CODEC, _PS_BLOCK, _PS_METADATA = 1, 2, 3, 5
_FT_STRIPES, _FT_TYPES, _FT_STATISTICS = 3, 4, 7
_TYPE_KIND, _TYPE_CHILDREN = 1, 2
_ST_OFFSET, _ST_INDEX, _ST_DATA, _ST_FOOTER, _ST_ROWS = 1, 2, 3, 4, 5
_SF_STREAMS, _SF_ENCODINGS, _SF_ZONE = 1, 2, 3
_STATS_COUNT, _STATS_TIMES = 1, 9
_BOUNDS = ((1, 3), (2, 4))  # of the local time and of UTC


class Kind(IntEnum):
    """These are types of columns that matter here."""

    LONG = 4
    TIMESTAMP = 9
    TIMESTAMP_INSTANT = 18


class StreamKind(IntEnum):
    """These are streams of columns that matter here."""

    PRESENT = 0
    DATA = 1
    SECONDARY = 5
    ROW_INDEX = 6


@dataclass(frozen=True, slots=True)
class Chunks:
    """It says how bytes are cut into compressed chunks. `codec`: its number; 0: they are not cut at all."""

    codec: int
    block: int

    def unpacked(self, data: bytes) -> bytes:
        """Return the bytes decompressed. Raises ValueError and errors of codecs for damage."""
        if self.codec == 0:
            return data
        return b"".join(self._parts(data))

    def packed(self, data: bytes) -> bytes:
        """Return the bytes in chunks that are not compressed."""
        if self.codec == 0:
            return data
        parts = (data[at : at + self.block] for at in range(0, len(data), self.block))
        return b"".join((len(part) << 1 | 1).to_bytes(_CHUNK_HEADER, "little") + part for part in parts)

    def position(self, at: int) -> list[int]:
        """Return the position of byte `at` of what was `packed`, in the form of row indexes."""
        if self.codec == 0:
            return [at]
        return [at // self.block * (self.block + _CHUNK_HEADER), at % self.block]

    def _parts(self, data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            header = int.from_bytes(data[at : at + _CHUNK_HEADER], "little")
            at += _CHUNK_HEADER
            size = header >> 1
            if at + size > len(data):
                raise ValueError(f"a chunk claims {size} bytes, but {len(data) - at} are left")
            part = data[at : at + size]
            yield part if header & 1 else self._decompress(part)
            at += size

    def _decompress(self, part: bytes) -> bytes:
        decode = _CODECS.get(self.codec)
        if decode is None:
            raise ValueError(f"codec {self.codec} is not supported")
        return decode(part, self.block)


def _zlib(part: bytes, block: int) -> bytes:
    return zlib.decompressobj(-15).decompress(part, block)


def _snappy(part: bytes, block: int) -> bytes:
    return bytes(cramjam.snappy.decompress_raw(part))


def _lz4(part: bytes, block: int) -> bytes:
    out = bytearray(block)
    return bytes(out[: cramjam.lz4.decompress_block_into(part, out)])


def _zstd(part: bytes, block: int) -> bytes:
    return zstd.ZstdDecompressor().decompress(part, max_length=block)


_CODECS: Mapping[int, Callable[[bytes, int], bytes]] = MappingProxyType(
    {1: _zlib, 2: _snappy, 3: lzo.decompress, 4: _lz4, 5: _zstd}
)


@dataclass(frozen=True, slots=True)
class Stripe:
    """This is the place of a stripe: its index, its data, its footer. `raw` is its message in the footer
    of the file.
    """

    offset: int
    index: int
    data: int
    footer: int
    rows: int
    raw: Message

    @classmethod
    def of(cls, raw: Message) -> Stripe:
        return cls(
            raw.number(_ST_OFFSET),
            raw.number(_ST_INDEX),
            raw.number(_ST_DATA),
            raw.number(_ST_FOOTER),
            raw.number(_ST_ROWS),
            raw,
        )

    def moved(self, offset: int, index: int, data: int, footer: int) -> Message:
        """Return the description of the stripe after it was written again."""
        numbers = (_ST_OFFSET, _ST_INDEX, _ST_DATA, _ST_FOOTER)
        out = self.raw.without(*numbers)
        for number, value in zip(numbers, (offset, index, data, footer), strict=True):
            out.add(number, value)
        return out

    @property
    def end(self) -> int:
        return self.offset + self.index + self.data + self.footer


@dataclass(frozen=True, slots=True)
class Stream:
    """This is one stream of a column, which is placed from the start of its stripe."""

    kind: int
    column: int
    length: int
    offset: int


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """These are the streams of a stripe in their order, the encodings of its columns, and the zone of its
    writer ("" for none).
    """

    streams: tuple[Stream, ...]
    encodings: tuple[int, ...]
    zone: str
    raw: Message

    @classmethod
    def decode(cls, data: bytes) -> StripeFooter:
        raw = Message.decode(data)
        streams, at = [], 0
        for one in raw.messages(_SF_STREAMS):
            streams.append(Stream(one.number(1), one.number(2), one.number(3), at))
            at += one.number(3)
        encodings = tuple(one.number(1) for one in raw.messages(_SF_ENCODINGS))
        zones = raw.all(_SF_ZONE)
        return cls(tuple(streams), encodings, zones[-1].decode() if zones else "", raw)

    def changed(self, streams: Sequence[tuple[int, int, int]], zone: str) -> bytes:
        """Return the bytes of the footer with other streams (kind, column, length) and zone."""
        out = Message()
        for kind, column, length in streams:
            out.extend(_SF_STREAMS, [Message().add(1, kind).add(2, column).add(3, length)])
        out.fields += self.raw.without(_SF_STREAMS, _SF_ZONE).fields
        return out.add(_SF_ZONE, zone.encode()).encode() if zone else out.encode()


@dataclass(frozen=True, slots=True)
class Tail:
    """This is the end of an ORC file. `kinds` and `children` are the types of columns by their ids and the
    ids in them. `start` is the offset of the end, at which the stripes end. `ending` has bytes of the file
    before its end, the footer among them.
    """

    size: int
    start: int
    chunks: Chunks
    kinds: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    stripes: tuple[Stripe, ...]
    footer: Message
    metadata: Message
    postscript: Message
    ending: bytes

    def times(self) -> list[int]:
        """Return the columns of timestamps."""
        return [i for i, kind in enumerate(self.kinds) if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT)]

    def count(self, column: int) -> int | None:
        """Return the number of values of a column that are not null, or None when the file does not record
        it.
        """
        stats = self.footer.all(_FT_STATISTICS)
        return Message.decode(stats[column]).find(_STATS_COUNT) if column < len(stats) else None

    def span(self, column: int) -> tuple[int, int] | None:
        """Return the range of milliseconds of the timestamps of a column, or None when the file does not
        record it.
        """
        stats = self.footer.all(_FT_STATISTICS)
        messages = Message.decode(stats[column]).messages(_STATS_TIMES) if column < len(stats) else []
        low, high = ([signed(v) for one in messages for n in both for v in one.ints(n)] for both in _BOUNDS)
        return (min(low), max(high)) if low and high else None

    def within(self, column: int) -> set[int]:
        """Return a column and all columns in it."""
        return {column}.union(*(self.within(child) for child in self.children[column]))

    def with_types(self, kinds: Mapping[int, int], stripes: Sequence[Message]) -> bytes:
        """Return the end of a file that has other stripes and some columns of other kinds, without
        statistics.
        """
        footer = Message()
        for number, wire, value in self.footer.without(_FT_STRIPES, _FT_STATISTICS, _FT_TYPES).fields:
            footer.fields.append((number, wire, value))
        footer.extend(_FT_STRIPES, stripes)
        for i, raw in enumerate(self.footer.messages(_FT_TYPES)):
            kind = raw.without(_TYPE_KIND).add(_TYPE_KIND, kinds[i]) if i in kinds else raw
            footer.extend(_FT_TYPES, [kind])
        return self.ended(footer, Message())

    def ended(self, footer: Message, metadata: Message) -> bytes:
        """Return metadata, footer and postscript as the last bytes of a file."""
        parts = [self.chunks.packed(part.encode()) for part in (metadata, footer)]
        script = Message()
        lengths = {_PS_METADATA: len(parts[0]), _PS_FOOTER: len(parts[1])}
        for number, wire, value in self.postscript.fields:
            script.fields.append((number, wire, lengths.pop(number, value)))
        for number, length in lengths.items():
            script.add(number, length)
        last = script.encode()
        return b"".join((*parts, last, bytes([len(last)])))


def read_tail(source: Any) -> Tail:
    """Return the end of an open file. Raises ValueError and errors of codecs when it is none.

    Most files need one read; another one follows when the footers are longer than 64 kB.
    """
    size = source.size()
    ending = bytes(source.read_at(min(size, _TAIL_BYTES), max(size - _TAIL_BYTES, 0)))
    length = ending[-1] if ending else 0
    script = Message.decode(ending[-1 - length : -1])
    footer, metadata = script.number(_PS_FOOTER), script.number(_PS_METADATA)
    needed = 1 + length + footer + metadata
    if needed > size:
        raise ValueError(f"the footers take {needed} bytes in a file of {size} bytes")
    if needed > len(ending):
        ending = bytes(source.read_at(needed, size - needed))
    chunks = Chunks(script.number(_PS_CODEC), script.number(_PS_BLOCK) or _DEFAULT_BLOCK)
    cut = len(ending) - 1 - length
    decoded = Message.decode(chunks.unpacked(ending[cut - footer : cut]))
    types = decoded.messages(_FT_TYPES)
    children = tuple(tuple(one.ints(_TYPE_CHILDREN)) for one in types)
    if any(not i < child < len(types) for i, inner in enumerate(children) for child in inner):
        raise ValueError("a nested column does not follow the column that contains it")
    return Tail(
        size=size,
        start=size - needed,
        chunks=chunks,
        kinds=tuple(one.number(_TYPE_KIND) for one in types),
        children=children,
        stripes=tuple(Stripe.of(one) for one in decoded.messages(_FT_STRIPES)),
        footer=decoded,
        metadata=Message.decode(chunks.unpacked(ending[cut - footer - metadata : cut - footer])),
        postscript=script,
        ending=ending,
    )


def stripe_footer(source: Any, tail: Tail, stripe: Stripe) -> StripeFooter:
    """Return the footer of a stripe. That of the last stripe was mostly read with the tail. Raises the errors
    of `read_tail`.
    """
    at = stripe.end - stripe.footer
    start = tail.size - len(tail.ending)
    inside = at >= start
    data = (
        tail.ending[at - start : at - start + stripe.footer] if inside else source.read_at(stripe.footer, at)
    )
    return StripeFooter.decode(tail.chunks.unpacked(bytes(data)))
