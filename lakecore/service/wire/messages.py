"""This module has the bodies of requests and results. Pure.

A request is partition, int32 bucket, int32 number of keys, keys; a result is int32 number of values, and for
each a byte 1 (there is no row), or 0 and the row. A row is int32 length, int32 number of fields, BinaryRow.
Source: Paimon's KvRequest, KvResponse and SerializationUtils.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from lakecore.errors import CorruptDataError

__all__ = ["LookupRequest", "decode_request", "decode_result", "encode_request", "encode_result"]

_INT = struct.Struct(">i")
_ABSENT = b"\1"
_PRESENT_SIZE = struct.Struct(">bi")


class LookupRequest(NamedTuple):
    """It asks for keys of one bucket; the partition and the keys are serialised rows."""

    partition: bytes
    bucket: int
    keys: tuple[bytes, ...]


def encode_request(request: LookupRequest) -> bytes:
    """Return the body of a request."""
    head = _with_size(request.partition) + struct.pack(">ii", request.bucket, len(request.keys))
    return head + b"".join(map(_with_size, request.keys))


def decode_request(body: bytes, peer: str) -> LookupRequest:
    """Return the request of a body. Raises CorruptDataError naming `peer`; memory is that of the body."""
    reader = _Reader(body, peer)
    partition, bucket, count = reader.sized(), reader.number(), reader.number()
    if bucket < 0:
        raise CorruptDataError(peer, f"the request has bucket {bucket}; buckets begin with 0")
    reader.check_count(count, 2 * _INT.size)
    keys = tuple([reader.sized() for _ in range(count)])
    reader.check_end()
    return LookupRequest(partition, bucket, keys)


def encode_result(values: Sequence[bytes | None]) -> bytes:
    """Return the body of a result; None is a key without row."""
    sized = _PRESENT_SIZE.pack
    parts = [_ABSENT if value is None else sized(0, len(value)) + value for value in values]
    return _INT.pack(len(values)) + b"".join(parts)


def decode_result(body: bytes, peer: str) -> tuple[bytes | None, ...]:
    """Return the values of a body. Raises CorruptDataError naming `peer`."""
    reader = _Reader(body, peer)
    count = reader.number()
    reader.check_count(count, 1)
    values = tuple(None if reader.take(1) == _ABSENT else reader.sized() for _ in range(count))
    reader.check_end()
    return values


def _with_size(row: bytes) -> bytes:
    return _INT.pack(len(row)) + row


class _Reader:
    """It reads a body from its start."""

    __slots__ = ("_at", "_body", "_peer")

    def __init__(self, body: bytes, peer: str) -> None:
        self._body = body
        self._peer = peer
        self._at = 0

    def take(self, size: int) -> bytes:
        at, end = self._at, self._at + size
        if size < 0 or end > len(self._body):
            size_left = len(self._body) - at
            raise CorruptDataError(self._peer, f"the message claims {size} bytes where {size_left} are left")
        self._at = end
        return self._body[at:end]

    def number(self) -> int:
        at = self._at
        if at + 4 > len(self._body):
            self.take(4)  # raises
        self._at = at + 4
        return int(_INT.unpack_from(self._body, at)[0])

    def sized(self) -> bytes:
        size = self.number()
        if size < 4:
            raise CorruptDataError(
                self._peer, f"the message has a row of {size} bytes; at least 4 are needed"
            )
        return self.take(size)

    def check_count(self, count: int, smallest: int) -> None:
        size_left = len(self._body) - self._at
        if count < 0 or count * smallest > size_left:
            raise CorruptDataError(self._peer, f"the message claims {count} rows in {size_left} bytes")

    def check_end(self) -> None:
        if size_left := len(self._body) - self._at:
            raise CorruptDataError(self._peer, f"the message has {size_left} bytes after its end")
