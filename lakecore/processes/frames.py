"""This module has the frames in which a process and its worker exchange bytes: a byte that says what they
are, a length of 8 bytes, then as many bytes.
"""

from __future__ import annotations

import struct
from typing import IO

from lakecore.data_class import dataclass

__all__ = ["Frame", "read_frame", "write_frame"]

_HEAD = struct.Struct(">?Q")


@dataclass(frozen=True, slots=True)
class Frame:
    """It is a pickled unit or result; or, before the result, a message that says how far the unit is."""

    data: bytes
    is_message: bool = False


def write_frame(stream: IO[bytes], frame: Frame) -> None:
    """Write one frame. Raises OSError when the other side has ended."""
    stream.write(_HEAD.pack(frame.is_message, len(frame.data)))
    stream.write(frame.data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> Frame | None:
    """Return the next frame, or None when the other side has ended, also in the middle of a frame."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    is_message, size = _HEAD.unpack(head)
    data = stream.read(size)
    return Frame(data, is_message) if len(data) == size else None
