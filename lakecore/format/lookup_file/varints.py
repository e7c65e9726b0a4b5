"""This module reads numbers of variable length, many at once. Source: Paimon's VarLengthIntUtils."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["PADDING", "Ints", "read_varint", "read_varints"]

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
