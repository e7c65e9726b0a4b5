"""This module has the result of a lookup of many keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass

__all__ = ["FoundRows", "gather"]


@dataclass(frozen=True, slots=True)
class FoundRows:
    """These are the results of a lookup, one for each key, in the order of the keys."""

    matches: pa.BooleanArray
    """It is true for each key of which the table has a row."""
    rows: pa.Table
    """It has one row for each key: nulls where the key was not found."""


def gather(
    count: int, schema: pa.Schema, parts: Sequence[tuple[np.ndarray[Any, Any], pa.RecordBatch]]
) -> FoundRows:
    """Put rows in the order of `count` keys. `parts` have the places of keys and the row of each."""
    places = np.full(count, -1, np.int64)
    start = 0
    for keys, batch in parts:
        places[keys] = np.arange(start, start + batch.num_rows)
        start += batch.num_rows
    is_match = places >= 0
    batches = [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for _, batch in parts]
    rows = pa.Table.from_batches(batches, schema)
    if not start:
        columns = [pa.nulls(count, field.type) for field in schema]
        return FoundRows(pa.array(is_match), pa.Table.from_arrays(columns, schema=schema))
    return FoundRows(pa.array(is_match), rows.take(pa.array(places, mask=~is_match)))
