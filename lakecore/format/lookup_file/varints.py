"""This module reads and writes numbers of variable length, many at once.

Source: Paimon's VarLengthIntUtils.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["PADDING", "Ints", "encode_varint", "encode_varints", "read_varint", "read_varints"]

Ints = np.ndarray[Any, Any]

PADDING = 16
"""Data has so many more bytes at its end than it means, so that a read of a value may pass the end."""
_GROUPS = 5
_MOST_GROUPS = 9


def read_varints(data: Ints, at: Ints) -> tuple[Ints, Ints]:
    """Return the unsigned numbers of up to 31 bits at these places, and the places after them.

    `data` are bytes with PADDING. Raises ValueError for a number that does not end.
    """
    value = np.zeros(len(at), np.int64)
    end = at.copy()
    goes_on = np.ones(len(at), bool)
    for group in range(_GROUPS):
        byte = data[np.minimum(end, len(data) - 1)].astype(np.int64)
        value += np.where(goes_on, (byte & 0x7F) << 7 * group, 0)
        end += goes_on
        goes_on &= byte >= 0x80
        if not goes_on.any():
            break
    if goes_on.any() or (value > 0x7FFFFFFF).any():
        raise ValueError("a number has too many bytes")
    return value, end


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return one unsigned number of up to 63 bits, and the place after it. Raises ValueError, IndexError."""
    value = 0
    for group in range(_MOST_GROUPS):
        byte = data[at + group]
        value |= (byte & 0x7F) << 7 * group
        if byte < 0x80:
            return value, at + group + 1
    raise ValueError("a number has too many bytes")


def encode_varint(value: int) -> bytes:
    """Return the bytes of one number that is not negative."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varints(values: Ints) -> tuple[Ints, Ints]:
    """Return the bytes of all numbers, which are not negative, and the number of bytes of each."""
    rest = values.astype(np.int64)
    groups = np.zeros((len(rest), _MOST_GROUPS), np.uint8)
    sizes = np.ones(len(rest), np.int64)
    for group in range(_MOST_GROUPS):
        groups[:, group] = rest & 0x7F
        rest = rest >> 7
        goes_on = rest > 0
        if not goes_on.any():
            break
        groups[goes_on, group] |= 0x80
        sizes[goes_on] += 1
    return groups[np.arange(_MOST_GROUPS) < sizes[:, None]], sizes
