"""Bitmaps of row numbers in the portable Roaring serialisation, checked before they are trusted.

The decoder of the library stays inside its buffer but believes what it finds there: keys out of order or a
wrong count make a bitmap that answers wrongly. So the structure is checked first.
"""

from __future__ import annotations

import struct

import numpy as np
from pyroaring import BitMap

from lakecore.errors import CorruptDataError

__all__ = ["BITSET_BYTES", "MAX_ARRAY", "PLAIN", "decode_roaring", "encode_roaring"]

PLAIN = 12346
"""Mark at the beginning of bitmaps without runs."""
MAX_ARRAY = 4096
"""A container of more rows is a bit set."""
BITSET_BYTES = 8192
_RUNS = 12347
_MAX_CONTAINERS = 1 << 16
_NO_OFFSETS_BELOW = 4


def encode_roaring(rows: BitMap) -> bytes:
    """The serialised bitmap, with runs where they are smaller. `rows` is optimised in place."""
    rows.run_optimize()
    return bytes(rows.serialize())


def decode_roaring(data: bytes, start: int, path: str, rows: int = 1 << 32) -> tuple[BitMap, int]:
    """The bitmap that begins at `start`, and where it ends; `rows`: of the file it is about.

    Raises CorruptDataError naming `path`. Cost: the bytes are looked at twice.
    """
    try:
        end = _checked_end(data, start)
        found = BitMap.deserialize(data[start:end])
    except (ValueError, IndexError, struct.error) as err:
        raise CorruptDataError(path, f"not a bitmap at byte {start}: {err}") from err
    if found and found.max() >= rows:
        raise CorruptDataError(path, f"a bitmap with row {found.max()} beside a file of {rows} rows")
    return found, end


def _checked_end(data: bytes, start: int) -> int:
    if start < 0:
        raise ValueError("it begins before the file")
    count, flags, at = _head(data, start)
    head = np.frombuffer(data, "<u2", 2 * count, at).reshape(count, 2).astype(np.int64)
    at += 4 * count
    if (np.diff(head[:, 0]) <= 0).any():
        raise ValueError("keys are not in order")
    if flags is None or count >= _NO_OFFSETS_BELOW:
        at += 4 * count
    for i, cardinality in enumerate((head[:, 1] + 1).tolist()):
        if flags is not None and flags[i >> 3] >> (i & 7) & 1:
            at = _check_runs(data, at, cardinality)
        elif cardinality > MAX_ARRAY:
            at = _check_bitset(data, at, cardinality)
        else:
            at = _check_array(data, at, cardinality)
    if at > len(data):
        raise ValueError("it ends after the file")
    return at


def _head(data: bytes, start: int) -> tuple[int, bytes | None, int]:
    """Number of containers, the flags of those that hold runs, and what follows."""
    (cookie,) = struct.unpack_from("<I", data, start)
    if cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        flags = data[start + 4 : start + 4 + (count + 7) // 8]
        return count, flags, start + 4 + (count + 7) // 8
    if cookie != PLAIN:
        raise ValueError(f"unknown mark {cookie}")
    (count,) = struct.unpack_from("<I", data, start + 4)
    if count > _MAX_CONTAINERS:
        raise ValueError(f"{count} containers")
    return count, None, start + 8


def _check_runs(data: bytes, at: int, cardinality: int) -> int:
    count = int(struct.unpack_from("<H", data, at)[0])
    runs = np.frombuffer(data, "<u2", 2 * count, at + 2).reshape(count, 2).astype(np.int64)
    ends = runs[:, 0] + runs[:, 1]
    if (runs[1:, 0] <= ends[:-1]).any() or (ends >= 1 << 16).any():
        raise ValueError("runs are not in order")
    if int(runs[:, 1].sum()) + count != cardinality:
        raise ValueError("runs do not hold as many rows as they say")
    return at + 2 + 4 * count


def _check_bitset(data: bytes, at: int, cardinality: int) -> int:
    words = np.frombuffer(data, "<u8", BITSET_BYTES // 8, at)
    if int(np.bitwise_count(words).sum()) != cardinality:
        raise ValueError("a bit set does not hold as many rows as it says")
    return at + BITSET_BYTES


def _check_array(data: bytes, at: int, cardinality: int) -> int:
    values = np.frombuffer(data, "<u2", cardinality, at)
    if (values[1:] <= values[:-1]).any():
        raise ValueError("rows are not in order")
    return at + 2 * cardinality
