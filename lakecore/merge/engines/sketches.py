"""This module unites serialised HLL and theta sketches of Apache DataSketches (optional: extra
`sketches`).
"""

from __future__ import annotations

import struct
from importlib.util import find_spec

import numpy as np

from lakecore.errors import CorruptDataError, UnsupportedError
from lakecore.merge.engines.hll_layout import check_hll

__all__ = ["check_library", "union_hll", "union_theta"]

_DAMAGE = (ValueError, IndexError, RuntimeError, struct.error)
"""What the library and the checks raise for bytes that are no sketch."""
_UPDATABLE = 2
_EMPTY = 4
_SINGLE = 32
_NOTHING = bytes([1, 3, 3, 0, 0, 0x1E, 0, 0])


def check_library(field: str, function: str) -> None:
    """Raise UnsupportedError if the library is not installed."""
    if find_spec("datasketches") is None:
        raise UnsupportedError(
            f"field {field}: function {function} needs the package datasketches; run pip "
            "install 'lakecore[sketches]'"
        )


def union_hll(older: bytes, newer: bytes, path: str) -> bytes:
    """Return the union of both sketches, as small as the newer one allows. Raises CorruptDataError naming
    `path`.

    Rule of the format: at most as many slots as the newer sketch has, 4 bits each, in the compact form. The
    library for Java keeps other figures for the estimate (bytes 8 to 16) where coupons meet slots: out of
    order they mean nothing, else, when the older sketch has to lose slots first, the estimate may differ by a
    percent or so.
    """
    from datasketches import hll_sketch, hll_union, tgt_hll_type

    try:
        for data in (older, newer):
            check_hll(data)
        left, right = hll_sketch.deserialize(older), hll_sketch.deserialize(newer)
        union = hll_union(right.lg_config_k)
        union.update(right)
        union.update(left)
        return bytes(union.get_result(tgt_hll_type.HLL_4).serialize_compact())
    except _DAMAGE as err:
        raise CorruptDataError(path, f"not an HLL sketch: {err}") from err


def union_theta(older: bytes, newer: bytes, path: str) -> bytes:
    """Return the union of both sketches with at most 4096 hashes, in order. Raises CorruptDataError naming
    `path`.
    """
    from datasketches import compact_theta_sketch, theta_union

    try:
        union = theta_union(12)
        for data in (older, newer):
            union.update(compact_theta_sketch.deserialize(_compact(data)))
        return _as_stored(bytearray(union.get_result().serialize()))
    except _DAMAGE as err:
        raise CorruptDataError(path, f"not a theta sketch: {err}") from err


def _compact(data: bytes) -> bytes:
    """Return a sketch in the compact form. The updatable one is a hash table with zeros and dirty values.

    Format: u8 words of the head, u8 3, u8 form, u8 log2 of the nominal size, u8 log2 of the table, u8 flags,
    u16 seed, u32 count, f32 sampling, i64 theta, the hashes.
    """
    if len(data) < 8 or data[2] != _UPDATABLE:
        return data
    if data[0] & 63 != 3 or data[1] != 3:
        raise ValueError(f"its head has {data[0] & 63} words and version {data[1]}")
    if data[5] & _EMPTY:
        return _NOTHING
    (theta,) = struct.unpack_from("<q", data, 16)
    table = np.frombuffer(data, "<i8", 1 << min(data[4], 40), 24)
    hashes = table[(table > 0) & (table < theta)]
    head = bytes([3, 3, 3, 0, 0, 0x0A]) + data[6:8]
    return b"".join([head, struct.pack("<ifq", len(hashes), 1.0, theta), hashes.tobytes()])


def _as_stored(data: bytearray) -> bytes:
    """Return the sketch with the parts of the head that the library leaves out and other writers of the
    format fill in.
    """
    if data[5] & _EMPTY:
        return _NOTHING
    if data[0] == 1:
        data[5] |= _SINGLE
    else:
        data[12:16] = struct.pack("<f", 1.0)
    return bytes(data)
