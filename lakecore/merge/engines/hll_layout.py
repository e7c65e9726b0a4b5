"""This module checks the layout of a serialised HLL sketch before the library reads it, because the library
trusts what it reads.

Format (little-endian): u8 words of the head, u8 1, u8 7, u8 log2 of the slots, u8 log2 of the table, u8
flags, u8 (list: number of coupons; slots: lowest value), u8 state | type << 2. State 0, list: coupons at 8.
State 1, set: u32 count, coupons at 12. State 2, slots: three doubles, u32 slots at the lowest value, u32
exceptions, the slots at 40 (type 0: 4 bits each above the lowest value, 15: an exception; 1: 6 bits; 2: a
byte), then the exceptions of type 0. A coupon or an exception is a slot number of 26 bits with a value of 6
bits above it.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

__all__ = ["check_hll"]

_LIST, _SET, _SLOTS = 0, 1, 2
_HEAD_WORDS = {_LIST: 2, _SET: 3, _SLOTS: 10}
_EMPTY, _COMPACT = 4, 8
_LIST_SIZE = 8
_EXCEPTION = 15
_SLOT_BITS = 26


def check_hll(data: bytes) -> None:
    """Raise ValueError, IndexError or struct.error if the bytes are no sketch. The cost grows with the
    slots.
    """
    words, version, family, log_slots, log_table, flags, low, mode = struct.unpack_from("<8B", data)
    state, kind = mode & 3, mode >> 2 & 3
    if (version, family) != (1, 7) or not 4 <= log_slots <= 21 or kind > 2:
        raise ValueError(f"version {version}, family {family}, 2^{log_slots} slots, type {kind}")
    if _HEAD_WORDS.get(state) != words:
        raise ValueError(f"its head has {words} words in state {state}")
    compact = bool(flags & _COMPACT)
    if state == _SLOTS:
        _check_slots(data, kind, log_slots, low, None if compact else log_table)
    elif state == _SET:
        _check_set(data, log_slots, None if compact else log_table)
    else:
        _check_coupons(data, 8, low, low if compact else _LIST_SIZE)
        if low > _LIST_SIZE or log_table != 3 or (low == 0) != bool(flags & _EMPTY):
            raise ValueError(f"its list has {low} coupons in 2^{log_table}")


def _check_set(data: bytes, log_slots: int, log_table: int | None) -> None:
    (count,) = struct.unpack_from("<I", data, 8)
    if log_slots < 8 or count * 4 > 3 << (log_slots - 3):
        raise ValueError(f"its set has {count} coupons for 2^{log_slots} slots")
    if log_table is not None and (not 5 <= log_table <= log_slots - 3 or count * 4 > 3 << log_table):
        raise ValueError(f"its set has {count} coupons in 2^{log_table}")
    _check_coupons(data, 12, count, count if log_table is None else 1 << log_table)


def _check_coupons(data: bytes, at: int, count: int, size: int) -> None:
    stored = np.frombuffer(data, "<u4", size, at)
    coupons = stored[stored != 0]
    if len(coupons) != count or len(np.unique(coupons)) != count or (coupons >> _SLOT_BITS == 0).any():
        raise ValueError(f"it does not have {count} coupons")


def _check_slots(data: bytes, kind: int, log_slots: int, low: int, log_table: int | None) -> None:
    lowest, exceptions = struct.unpack_from("<II", data, 32)
    count = 1 << log_slots
    values, end = _slot_values(data, kind, count)
    if kind == 0:
        places = np.flatnonzero(values == _EXCEPTION)
        if exceptions != len(places) or (log_table is not None and exceptions and not 2 <= log_table <= 18):
            raise ValueError(f"{exceptions} exceptions for {len(places)} slots")
        if exceptions:
            size = exceptions if log_table is None else 1 << log_table
            _check_exceptions(np.frombuffer(data, "<u4", size, end), places, low, count)
    if (low and kind) or low > 62 or (exceptions and kind) or int((values == 0).sum()) != lowest:
        raise ValueError(f"not {lowest} slots of value {low}")


def _slot_values(data: bytes, kind: int, count: int) -> tuple[Any, int]:
    """Return the stored value of each slot, and the end of the values."""
    if kind == 2:
        values = np.frombuffer(data, np.uint8, count, 40)
        if (values > 63).any():
            raise ValueError("a slot has a value above 63")
        return values, 40 + count
    if kind == 1:
        size = count * 3 // 4
        np.frombuffer(data, np.uint8, size + 1, 40)
        bits = np.unpackbits(np.frombuffer(data, np.uint8, size, 40), bitorder="little").reshape(count, 6)
        return np.packbits(bits, axis=1, bitorder="little").ravel(), 41 + size
    pairs = np.frombuffer(data, np.uint8, count // 2, 40)
    return np.stack([pairs & 15, pairs >> 4], axis=1).ravel(), 40 + count // 2


def _check_exceptions(stored: Any, places: Any, low: int, slots: int) -> None:
    """Check the exceptions. `places` are the slots whose value is recorded among the exceptions."""
    exceptions = stored[stored != 0]
    values = exceptions >> _SLOT_BITS
    if not np.array_equal(np.sort(exceptions & (slots - 1)), places) or (values < low + _EXCEPTION).any():
        raise ValueError("its exceptions are of other slots")
