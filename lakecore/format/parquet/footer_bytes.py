"""This module reads the end of a parquet file: its footer, the footer's length and the magic number."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["MAGIC", "TAIL", "ended", "metadata_of", "read_footer"]

MAGIC = b"PAR1"
TAIL = 8
"""These are the bytes behind the footer: its length, and the magic number."""


def ended(footer: bytes) -> bytes:
    """Return the footer with the bytes behind it."""
    return footer + struct.pack("<I", len(footer)) + MAGIC


def metadata_of(footer: bytes) -> Any:
    """Return the footer as pyarrow FileMetaData: that of a file without data."""
    return pq.read_metadata(pa.BufferReader(MAGIC + ended(footer)))


def read_footer(source: Any) -> bytes:
    """Return the thrift bytes of a parquet footer. Raises ValueError when the file does not end with one."""
    size = source.size()
    source.seek(max(size - TAIL, 0))
    tail = source.read(TAIL)
    if len(tail) != TAIL or tail[4:] != MAGIC:
        raise ValueError("it is not a parquet file: it does not end with the magic number")
    length = struct.unpack("<I", tail[:4])[0]
    if length + TAIL + len(MAGIC) > size:
        raise ValueError(f"the footer claims {length} bytes in a file of {size} bytes")
    source.seek(size - TAIL - length)
    return bytes(source.read(length))
