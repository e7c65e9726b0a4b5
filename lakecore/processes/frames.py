"""This module has the frames in which a process and its worker exchange pickles: a length of 8 bytes, then
as many bytes.
"""

from __future__ import annotations

import struct
from typing import IO

__all__ = ["read_frame", "write_frame"]

_LENGTH = struct.Struct(">Q")


def write_frame(stream: IO[bytes], data: bytes) -> None:
    """Write one frame. Raises OSError when the other side has ended."""
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the next frame, or None when the other side has ended, also in the middle of a frame."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    size = _LENGTH.unpack(head)[0]
    data = stream.read(size)
    return data if len(data) == size else None
