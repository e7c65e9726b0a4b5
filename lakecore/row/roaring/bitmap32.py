"""This module has bitmaps of 32-bit numbers in the portable Roaring serialisation, checked before they are
trusted.

The decoder of the library stays inside its buffer but believes what it finds there: keys out of order or a
wrong count make a bitmap that answers wrongly. So the structure is checked first.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError

__all__ = [
    "BITSET_BYTES",
    "MAX_ARRAY",
    "PLAIN",
    "Container",
    "Kind",
    "containers",
    "decode_roaring",
    "encode_roaring",
    "read_container",
    "stream_of",
]

MAX_ARRAY = 4096
"""A container of more numbers than this is a bit set, unless it holds runs."""
PLAIN = 12346
"""This is the number at the beginning of bitmaps that have no runs."""
_RUNS = 12347
_MAX_CONTAINERS = 1 << 16
BITSET_BYTES = 8192
_NO_OFFSETS_BELOW = 4


class Kind(IntEnum):
    """It says what the body of a container is: u16 count and (first, length - 1) pairs; 1024 words; sorted
    u16.
    """

    RUNS = 0
    BITS = 1
    ARRAY = 2


@dataclass(frozen=True, slots=True)
class Container:
    """These numbers share their upper 16 bits: it has their lower 16 bits, as stored (little-endian)."""

    kind: Kind
    cardinality: int
    body: bytes


def encode_roaring(rows: BitMap) -> bytes:
    """Return the serialised bitmap, with runs where they are smaller. `rows` is optimised in place."""
    rows.run_optimize()
    return bytes(rows.serialize())


def decode_roaring(data: bytes, start: int, path: str, rows: int = 1 << 32) -> tuple[BitMap, int]:
    """Return the bitmap that begins at `start`, and its end; `rows` is the number of rows of the file that it
    describes.

    Raises CorruptDataError naming `path`. Cost: the bytes are looked at twice.
    """
    try:
        _, end = containers(data, start)
        bitmap = BitMap.deserialize(data[start:end])
    except (ValueError, IndexError, struct.error) as err:
        raise CorruptDataError(path, f"not a bitmap at byte {start}: {err}") from err
    if bitmap and bitmap.max() >= rows:
        raise CorruptDataError(
            path, f"contains a bitmap with row {bitmap.max()}, but its file has {rows} rows"
        )
    return bitmap, end


def containers(
    data: bytes, start: int = 0, *, trusted: bool = False
) -> tuple[list[tuple[int, Container]], int]:
    """Return the upper 16 bits and the container of each one that is serialised at `start`, in order; and
    where they end.

    `trusted`: the library has just made the bytes, and bodies are not looked at. Raises ValueError,
    IndexError or struct.error where the bytes break the format.
    """
    if start < 0:
        raise ValueError("it begins before the file")
    count, flags, at = _head(data, start)
    head = np.frombuffer(data, "<u2", 2 * count, at).reshape(count, 2).astype(np.int64)
    at += 4 * count
    if (np.diff(head[:, 0]) <= 0).any():
        raise ValueError("keys are not in order")
    if flags is None or count >= _NO_OFFSETS_BELOW:
        at += 4 * count
    result = []
    runs, bits, array = Kind.RUNS, Kind.BITS, Kind.ARRAY
    for i, (key, last) in enumerate(head.tolist()):
        kind = bits if last >= MAX_ARRAY else array
        if flags is not None and flags[i >> 3] >> (i & 7) & 1:
            kind = runs
        container, at = read_container(data, at, kind, last + 1, trusted=trusted)
        result.append((key, container))
    return result, at


def read_container(
    data: bytes, at: int, kind: Kind, cardinality: int, *, trusted: bool = False
) -> tuple[Container, int]:
    """Return the container whose body begins at `at`, and its end. Raises the same errors as `containers`."""
    end = _end(data, at, kind, cardinality) if trusted else _CHECKS[kind](data, at, cardinality)
    if end > len(data):
        raise ValueError("it ends after the file")
    return Container(kind, cardinality, data[at:end]), end


def _end(data: bytes, at: int, kind: Kind, cardinality: int) -> int:
    if kind is Kind.ARRAY:
        return at + 2 * cardinality
    return at + (BITSET_BYTES if kind is Kind.BITS else 2 + 4 * int(struct.unpack_from("<H", data, at)[0]))


def stream_of(containers: Sequence[tuple[int, Container]]) -> bytes:
    """Return the serialisation of containers by their upper 16 bits, which must be in ascending order."""
    count = len(containers)
    runs = any(container.kind is Kind.RUNS for _, container in containers)
    if runs:
        marks = np.packbits([c.kind is Kind.RUNS for _, c in containers], bitorder="little")
        head = struct.pack("<I", _RUNS | (count - 1) << 16) + marks.tobytes()
    else:
        head = struct.pack("<II", PLAIN, count)
    keys = np.array([(key, container.cardinality - 1) for key, container in containers], "<u2").tobytes()
    offsets = b""
    if not runs or count >= _NO_OFFSETS_BELOW:
        sizes = np.array([0, *(len(container.body) for _, container in containers)])[:-1]
        offsets = (np.cumsum(sizes) + len(head) + len(keys) + 4 * count).astype("<u4").tobytes()
    return b"".join([head, keys, offsets, *(container.body for _, container in containers)])


def _head(data: bytes, start: int) -> tuple[int, bytes | None, int]:
    """Return the number of containers, the flags of those that have runs, and the position after them."""
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


_CHECKS = {Kind.RUNS: _check_runs, Kind.BITS: _check_bitset, Kind.ARRAY: _check_array}
