"""This module has the frames of Paimon's query service. Pure.

A frame is int32 length of what follows, int32 version 1, int32 type, int64 request id, body; all big-endian.
A failure of a whole server has no request id. Source: Paimon's MessageSerializer and MessageType.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from lakecore.errors import CorruptDataError

__all__ = ["LENGTH", "SMALLEST", "Frame", "FrameType", "decode_frame", "encode_frame"]

LENGTH = struct.Struct(">i")
_VERSION = 1
_HEADER = struct.Struct(">ii")
_WHOLE_HEADER = struct.Struct(">iiq")
_HEAD = struct.Struct(">iiiq")
SMALLEST = _HEADER.size
"""No frame is shorter, in bytes after its length."""


class FrameType(IntEnum):
    """It tells what a frame is. `TOKEN` and `IDENTITY` are lakecore's own: Java has no such frames."""

    REQUEST = 0
    RESULT = 1
    REQUEST_FAILURE = 2
    SERVER_FAILURE = 3
    TOKEN = 4
    IDENTITY = 5


class Frame(NamedTuple):
    """This is one message. `request_id` is 0 in a failure of the server. (Tuples are made in half the time of
    frozen dataclasses, and each request makes some.)
    """

    type: FrameType
    request_id: int
    body: bytes


def encode_frame(frame: Frame) -> bytes:
    """Return the bytes of a frame, with its length."""
    kind, number, body = frame
    if kind is FrameType.SERVER_FAILURE:
        return LENGTH.pack(_HEADER.size + len(body)) + _HEADER.pack(_VERSION, kind) + body
    return _HEAD.pack(_WHOLE_HEADER.size + len(body), _VERSION, kind, number) + body


def decode_frame(content: bytes, peer: str) -> Frame:
    """Return the frame of the bytes after the length. Raises CorruptDataError naming `peer`."""
    try:
        version, kind = _HEADER.unpack_from(content)
        if version != _VERSION:
            raise CorruptDataError(peer, f"the frame has version {version}; only {_VERSION} is known")
        frame_type = FrameType(kind)
        if frame_type is FrameType.SERVER_FAILURE:
            return Frame(frame_type, 0, content[_HEADER.size :])
        _, _, number = _WHOLE_HEADER.unpack_from(content)
        return Frame(frame_type, number, content[_WHOLE_HEADER.size :])
    except (struct.error, ValueError) as err:
        raise CorruptDataError(peer, f"the frame of {len(content)} bytes is not one of Paimon's") from err
