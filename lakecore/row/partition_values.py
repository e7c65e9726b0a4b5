"""This module converts Python values of partition columns to internal values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakecore.errors import InvalidInputError
from lakecore.row.partition_path import parse_partitions
from lakecore.row.values import array_values
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import RowType
from lakecore.types.exact_array import exact_array

__all__ = ["partition_specs", "partition_value"]


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


def partition_specs(
    partitions: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    partition_type: RowType,
    default_name: str,
    convert: Callable[[str, Any, RowType], Any] = partition_value,
) -> tuple[Mapping[str, Any], ...]:
    """Return the internal values of partitions that a caller names: as a text (see `parse_partitions`), as
    one mapping, or as several. `convert` makes the values of mappings internal. Raises InvalidInputError.
    """
    if isinstance(partitions, str):
        return parse_partitions(partitions, partition_type, default_name)
    specs = [partitions] if isinstance(partitions, Mapping) else partitions
    return tuple(
        {name: convert(name, value, partition_type) for name, value in spec.items()} for spec in specs
    )
