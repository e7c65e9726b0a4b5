r"""This module reads and writes the avro container file: header, codec, blocks and sync markers of metadata
files.

Spec: `Obj\x01`, a map of metadata, 16 sync bytes; then blocks of count, size, data, sync. A block of a
manifest holds about 64 KB before compression.
"""

from __future__ import annotations

import bz2
import hashlib
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import cramjam
from backports import zstd

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, UnsupportedError, reason
from lakecore.format.avro.schema import KNOWN_SCHEMAS, AvroMap, AvroNode, AvroPrimitive, parse_avro_schema
from lakecore.format.avro.values import Decode, decoder, read_long, write_long

__all__ = [
    "AVRO_MAGIC",
    "AvroBlock",
    "AvroContainer",
    "deflate_block",
    "encode_container",
    "is_avro",
    "open_container",
    "record_blocks",
]

AVRO_MAGIC = b"Obj\x01"

_SYNC_SIZE = 16
_BLOCK_SIZE = 64_000
_MAX_BLOCK = 256 << 20
"""The largest block after decompression: a larger one is damage or an attack, since no writer makes blocks
of even 1 MB.
"""
_ZSTD: Mapping[int, int] = {
    zstd.CompressionParameter.compression_level: 1,
    zstd.CompressionParameter.checksum_flag: 1,
}
_METADATA = decoder(AvroMap(AvroPrimitive("bytes")))

DAMAGE = (
    ValueError, IndexError, KeyError, OverflowError, EOFError, OSError,
    zlib.error, lzma.LZMAError, zstd.ZstdError, cramjam.DecompressionError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AvroBlock:
    """A block of `count` records; `data` is still compressed."""

    count: int
    data: bytes


@dataclass(frozen=True, slots=True)
class AvroContainer:
    """This is one opened container file. `schema` is the writer's."""

    path: str
    schema_text: bytes
    schema: AvroNode
    codec: str
    blocks: tuple[AvroBlock, ...]

    @property
    def count(self) -> int:
        """Return the number of records in all blocks, as their headers record it."""
        return sum(block.count for block in self.blocks)

    def all_records(self) -> Iterator[dict[str, Any]]:
        """Yield every record of the file. Raises CorruptDataError naming it, UnsupportedError for the
        codec.
        """
        for block in self.blocks:
            yield from self.records(block.count, self.inflate(block))

    def records(self, count: int, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the `count` records of an inflated block. Raises CorruptDataError naming the file."""
        if count > len(data):
            raise CorruptDataError(self.path, f"has a block of {len(data)} bytes that claims {count} records")
        read = _decoder(self.schema_text)
        at = 0
        try:
            for _ in range(count):
                record, at = read(data, at)
                if not isinstance(record, dict):
                    raise ValueError("it is not of a record type")
                yield record
        except DAMAGE as err:
            raise CorruptDataError(
                self.path, f"contains a record that cannot be decoded: {reason(err)}"
            ) from err
        if at != len(data):
            raise CorruptDataError(self.path, f"has {len(data) - at} bytes after the last record of a block")

    def inflate(self, block: AvroBlock) -> bytes:
        """Return the records of a block. Raises CorruptDataError naming the file, UnsupportedError for the
        codec.
        """
        unpack = _CODECS.get(self.codec)
        if unpack is None:
            codecs = ", ".join(sorted(_CODECS))
            raise UnsupportedError(
                f"{self.path}: avro codec {self.codec!r} is not supported; this release reads {codecs}"
            )
        try:
            return unpack(block.data)
        except DAMAGE as err:
            raise CorruptDataError(
                self.path, f"contains a {self.codec} block that cannot be decompressed: {err}"
            ) from err

    def inflate_all(self, blocks: Sequence[AvroBlock], out: bytearray) -> int | None:
        """Write the records of several blocks to `out`, one block after the other, and return their bytes.

        The result is None where each block has to be inflated alone, which gives its records or tells what is
        wrong. This is so for another codec than zstd, for a block that is not exactly one frame, and where
        `out` has no room. One call takes a fourth less CPU than several, and other threads run meanwhile.
        """
        if self.codec != "zstandard":
            return None
        try:
            if any(zstd.get_frame_size(block.data) != len(block.data) for block in blocks):
                return None
            size: int = cramjam.zstd.decompress_into(b"".join([block.data for block in blocks]), out)
        except DAMAGE:
            return None
        return size


@lru_cache(KNOWN_SCHEMAS)
def _decoder(schema_text: bytes) -> Decode:
    return decoder(parse_avro_schema(schema_text, "the avro schema"))


def is_avro(data: bytes) -> bool:
    """Return whether the file begins as an avro container."""
    return data[: len(AVRO_MAGIC)] == AVRO_MAGIC


def open_container(data: bytes, path: str) -> AvroContainer:
    """Read the header and find the blocks; nothing is inflated yet.

    Raises CorruptDataError naming `path`: the file is cut, a sync marker is wrong or a size is impossible.
    """
    if not is_avro(data):
        raise CorruptDataError(path, f"is not an avro file: it begins with {data[:4]!r}")
    try:
        metadata, at = _METADATA(data, len(AVRO_MAGIC))
        sync = data[at : at + _SYNC_SIZE]
        if len(sync) < _SYNC_SIZE:
            raise ValueError("the header is cut off")
        blocks = tuple(_blocks(data, at + _SYNC_SIZE, sync))
        schema_text = metadata["avro.schema"]
        codec = metadata.get("avro.codec", b"null").decode()
    except DAMAGE as err:
        raise CorruptDataError(path, f"is not a complete avro file: {reason(err)}") from err
    return AvroContainer(path, schema_text, parse_avro_schema(schema_text, path), codec, blocks)


def _blocks(data: bytes, at: int, sync: bytes) -> Iterator[AvroBlock]:
    while at < len(data):
        count, at = read_long(data, at)
        size, at = read_long(data, at)
        end = at + size
        if count < 0 or size < 0 or end + _SYNC_SIZE > len(data):
            raise ValueError(
                f"the block at byte {at} claims {count} records and {size} bytes in a file of {len(data)} "
                "bytes"
            )
        if data[end : end + _SYNC_SIZE] != sync:
            raise ValueError(f"the sync marker at byte {end} is wrong")
        if count:
            yield AvroBlock(count, data[at:end])
        at = end + _SYNC_SIZE


def deflate_block(count: int, data: bytes | bytearray) -> AvroBlock:
    """Return a block of `count` records as `encode_container` stores it: compressed with zstd."""
    return AvroBlock(count, zstd.compress(data, options=_ZSTD))


def record_blocks(records: Iterable[bytes]) -> Iterator[AvroBlock]:
    """Yield encoded records in blocks of the usual size."""
    waiting: list[bytes] = []
    size = 0
    for record in records:
        waiting.append(record)
        size += len(record)
        if size >= _BLOCK_SIZE:
            yield deflate_block(len(waiting), b"".join(waiting))
            waiting, size = [], 0
    if waiting:
        yield deflate_block(len(waiting), b"".join(waiting))


def encode_container(schema_text: str, blocks: Sequence[AvroBlock]) -> bytes:
    """Encode a container of zstd blocks. The sync marker derives from the content, so equal input gives
    equal bytes.
    """
    digest = hashlib.blake2b(schema_text.encode(), digest_size=_SYNC_SIZE)
    for block in blocks:
        digest.update(block.data)
    sync = digest.digest()
    out = bytearray(AVRO_MAGIC)
    header = {"avro.schema": schema_text.encode(), "avro.codec": b"zstandard"}
    write_long(out, len(header))
    for key, value in header.items():
        for part in (key.encode(), value):
            write_long(out, len(part))
            out += part
    out.append(0)
    out += sync
    for block in blocks:
        write_long(out, block.count)
        write_long(out, len(block.data))
        out += block.data
        out += sync
    return bytes(out)


# --- codecs: every one refuses to grow a block beyond _MAX_BLOCK


def _with_limit(make: Callable[[], Any]) -> Callable[[bytes], bytes]:
    def unpack(data: bytes) -> bytes:
        machine = make()
        out: bytes = machine.decompress(data, max_length=_MAX_BLOCK)
        if not machine.eof:
            raise ValueError(f"the block is cut off, or larger than {_MAX_BLOCK} bytes")
        return out

    return unpack


def _deflate(data: bytes) -> bytes:
    machine = zlib.decompressobj(-zlib.MAX_WBITS)
    out = machine.decompress(data, _MAX_BLOCK)
    if not machine.eof:
        raise ValueError(f"the block is cut off, or larger than {_MAX_BLOCK} bytes")
    return out


def _snappy(data: bytes) -> bytes:
    body, check = data[:-4], data[-4:]
    size = _plain_varint(body)
    if size > _MAX_BLOCK:
        raise ValueError(f"the block claims {size} bytes, more than {_MAX_BLOCK}")
    out = bytes(cramjam.snappy.decompress_raw(body))
    if zlib.crc32(out).to_bytes(4, "big") != check:
        raise ValueError("the checksum is wrong")
    return out


def _plain_varint(data: bytes) -> int:
    value = 0
    for index in range(5):
        value |= (data[index] & 127) << (7 * index)
        if data[index] < 128:
            return value
    raise ValueError("a length takes more than five bytes")


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _with_limit(zstd.ZstdDecompressor),
    "bzip2": _with_limit(bz2.BZ2Decompressor),
    "xz": _with_limit(lzma.LZMADecompressor),
}
