"""This module converts one Python value to an Arrow array, if pyarrow would not change the value. Pure."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any

import pyarrow as pa

__all__ = ["exact_array"]


def exact_array(value: Any, data_type: pa.DataType) -> pa.Array:
    """Return an array of this value alone. Raises TypeError, ValueError, OverflowError or pa.ArrowException
    for what is no value of the type.

    pyarrow takes 1.5 for the INT 1, a number for a date or a time, and leaves the time of the day out of a
    DATE: a lookup would find the row of another key, and an overwrite would replace another partition.
    """
    array = pa.array([value], data_type)
    if isinstance(value, datetime):
        changed = pa.types.is_date(data_type) and value.time() != time()
    elif isinstance(value, (int, float)):
        changed = pa.types.is_temporal(data_type) or (
            not pa.types.is_floating(data_type) and array[0].as_py() != value
        )
    else:
        changed = False
    if changed:
        raise TypeError(f"{value!r} would become another value of type {data_type}")
    return array
