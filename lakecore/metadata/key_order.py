"""This module turns values and serialised keys into Python values that compare as the format orders them.
Pure.

Strings compare by code points (that is by UTF-8 bytes), bytes are unsigned, decimals compare by value,
false < true.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lakecore.row.binary_row import row_decoder
from lakecore.types.datatypes import RowType

__all__ = ["comparable", "key_order"]


def comparable(value: Any) -> Any:
    """Return `value`, or for a float a value that is totally ordered: -0.0 below 0.0, one NaN above
    everything.
    """
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return True, 0.0, 1.0
    return False, value, math.copysign(1.0, value)


def key_order(key_type: RowType) -> Callable[[bytes], tuple[Any, ...]]:
    """Return a function from a serialised key to a tuple that compares as files are sorted: column by
    column.
    """

    decode = row_decoder(key_type, "the key of a data file")

    def key(data: bytes) -> tuple[Any, ...]:
        return tuple(map(comparable, decode(data)))

    return key
