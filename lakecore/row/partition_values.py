"""This module converts Python values of partition columns to internal values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakecore.errors import InvalidInputError
from lakecore.row.values import array_values
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import RowType
from lakecore.types.exact_array import exact_array

__all__ = ["partition_value"]


def partition_value(name: str, value: Any, partition_type: RowType) -> Any:
    """Convert a Python value of a partition column to the internal value of rows. Raises InvalidInputError
    for another column, and for a value of another type.
    """
    if name not in partition_type.names:
        names = ", ".join(partition_type.names) or "none"
        raise InvalidInputError(f"{name!r} is not a partition column; the partition columns are: {names}")
    data_type = partition_type.field(name).type
    try:
        return array_values(exact_array(value, arrow_type(data_type)), data_type)[0]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as err:
        raise InvalidInputError(f"partition {name}={value!r}: not a value of type {data_type}") from err
