"""This module defines the container of a file index: it has all index blobs of one data file, which are found
by column and type.

Layout, big-endian: magic, version, length of the head; per column its name and per type where its blob lies
(-1: nothing was indexed), and room that readers skip; then the blobs. Names are in modified UTF-8; the order
is free.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from functools import lru_cache

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError

__all__ = ["FIXED_HEAD", "INDEX_SUFFIX", "Blob", "Blobs", "decode_head", "encode_container", "head_length"]

INDEX_SUFFIX = ".index"
_MAGIC = 1493475289347502
_VERSION = 1
_FIXED = struct.Struct(">qii")
_EMPTY = -1
_HEADS = 2048  # decoded, some hundred bytes each, for searches in the same files again and again
FIXED_HEAD = _FIXED.size

Blobs = Mapping[str, Mapping[str, bytes | None]]
"""It maps a column to its blobs by index type; a blob is None where no row had a value to index."""


@dataclass(frozen=True, slots=True)
class Blob:
    """This is the position of a blob, counted from the start of the container. If `start` is -1, the blob
    is empty.
    """

    start: int
    length: int

    @property
    def empty(self) -> bool:
        return self.start == _EMPTY


def encode_container(blobs: Blobs, mark: bytes = b"") -> bytes:
    """Return the container, with columns and types in the order given. Raises ValueError for a name of more
    than 65535 bytes.

    `mark`: bytes at the end of the head, where the format leaves room that readers skip; it tells two
    containers of the same indexes apart.
    """
    pairs = [
        (_encode_name(column), [(_encode_name(kind), blob) for kind, blob in kinds.items()])
        for column, kinds in blobs.items()
    ]
    length = _FIXED.size + 4 + 4 + len(mark)
    length += sum(len(column) + 4 + sum(len(kind) + 8 for kind, _ in kinds) for column, kinds in pairs)
    head = [_FIXED.pack(_MAGIC, _VERSION, length), struct.pack(">i", len(pairs))]
    body: list[bytes] = []
    at = length
    for column, kinds in pairs:
        head += [column, struct.pack(">i", len(kinds))]
        for kind, blob in kinds:
            head += [kind, struct.pack(">ii", _EMPTY if blob is None else at, len(blob or b""))]
            body.append(blob or b"")
            at += len(blob or b"")
    return b"".join((*head, struct.pack(">i", len(mark)), mark, *body))


def head_length(data: bytes, size: int, path: str) -> int:
    """Return the number of bytes of the head, which the first `FIXED_HEAD` bytes of a container of `size`
    bytes record.
    """
    try:
        magic, version, length = _FIXED.unpack_from(data)
    except struct.error as err:
        raise CorruptDataError(path, f"is not a file index: {err}") from err
    if magic != _MAGIC or version != _VERSION:
        raise CorruptDataError(
            path, f"is not a file index: its magic number is {magic} and its version is {version}"
        )
    if not FIXED_HEAD <= length <= size:
        raise CorruptDataError(path, f"has a file index of {size} bytes whose head takes {length} bytes")
    return int(length)


def decode_head(head: bytes, size: int, path: str) -> Mapping[str, Mapping[str, Blob]]:
    """Return the position of the blob of each column and index type. `head` is at least the whole head;
    `size` is that of the container.

    Raises CorruptDataError, also for blobs that do not lie inside.
    """
    length = head_length(head, size, path)
    try:
        return _columns(head[:length], size)
    except _OutsideError as err:
        raise CorruptDataError(path, str(err)) from err
    except (struct.error, UnicodeDecodeError, IndexError) as err:
        raise CorruptDataError(path, f"is not a file index: {err}") from err


class _OutsideError(Exception):
    """A blob that does not lie behind the head, inside the container."""


@lru_cache(_HEADS)
def _columns(head: bytes, size: int) -> dict[str, dict[str, Blob]]:
    (count,) = struct.unpack_from(">i", head, FIXED_HEAD)
    at = FIXED_HEAD + 4
    columns: dict[str, dict[str, Blob]] = {}
    for _ in range(count):
        column, at = _decode_name(head, at)
        (kinds,) = struct.unpack_from(">i", head, at)
        at += 4
        parts = columns[column] = {}
        for _ in range(kinds):
            kind, at = _decode_name(head, at)
            blob = parts[kind] = Blob(*struct.unpack_from(">ii", head, at))
            if not blob.empty and not (len(head) <= blob.start and 0 <= blob.length <= size - blob.start):
                raise _OutsideError(
                    f"an index of {blob.length} bytes at byte {blob.start} lies outside of the file"
                )
            at += 8
    return columns


def _encode_name(name: str) -> bytes:
    data = _ODD.sub(_to_odd, name).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    if len(data) > 0xFFFF:
        raise ValueError(f"a column name has {len(data)} bytes, more than 65535")
    return struct.pack(">H", len(data)) + data


def _decode_name(head: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">H", head, at)
    data = head[at + 2 : at + 2 + length]
    if len(data) != length:
        raise IndexError("a name ends after the head")
    text = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return text.encode("utf-16", "surrogatepass").decode("utf-16"), at + 2 + length


_ODD = re.compile("[\U00010000-\U0010ffff]")


def _to_odd(match: re.Match[str]) -> str:
    """Return a character beyond 16 bits as two surrogates: modified UTF-8 encodes each of them."""
    code = ord(match[0]) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))
