"""This module decides record-level expiry: which rows are too old. It is pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakecore.verify.rules.order import Bools

__all__ = ["is_expired"]

_FIRST_MILLIS = 1_000_000_000_000
"""A BIGINT from here on counts milliseconds, below it seconds (rule of the format)."""
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


def is_expired(times: pa.Array, now_ms: int, expire_seconds: int) -> Bools:
    """Mark expired rows. A time may be an integer or a timestamp; a row without one never expires."""
    valid = np.asarray(times.is_valid().to_numpy(zero_copy_only=False))
    if pa.types.is_timestamp(times.type):
        per_second = _PER_SECOND[times.type.unit]
        values = times.cast(pa.int64()).fill_null(0).to_numpy() // per_second
    else:
        values = times.fill_null(0).to_numpy().astype(np.int64)
        values = np.where(values >= _FIRST_MILLIS, values // 1000, values)
    return np.asarray(valid & (values + expire_seconds < now_ms // 1000))
