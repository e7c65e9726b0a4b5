"""This module selects the row groups of a parquet file that can hold a matching row, by their statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.format.bounds import has_bounds, internal_value
from lakecore.format.data_reader import DataFileReader
from lakecore.format.parquet.reader import ParquetReader
from lakecore.predicate.stats import ColumnStats, may_match
from lakecore.predicate.tree import Predicate
from lakecore.types.arrow import arrow_type, arrow_values
from lakecore.types.datatypes import DataField

__all__ = ["group_sizes", "matching_row_groups"]


def matching_row_groups(
    reader: DataFileReader, columns: Mapping[str, tuple[str, DataField]], predicate: Predicate | None
) -> Sequence[int] | None:
    """Return the indices of row groups to read; None for all. `columns`: predicate column -> stored name and
    field.
    """
    if predicate is None or not isinstance(reader, ParquetReader) or not columns:
        return None
    metadata = reader.metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    leaves = _flat_leaves(reader.schema)
    stats = {
        name: _column_stats([group.column(leaves[stored]) for group in groups], field)
        for name, (stored, field) in columns.items()
        if stored in leaves and has_bounds(arrow_type(field.type))
    }
    rows = np.array([group.num_rows for group in groups], np.int64)
    return [int(i) for i in np.flatnonzero(may_match(predicate, stats, rows))]


def group_sizes(reader: DataFileReader) -> tuple[int, ...] | None:
    """Return the rows of each row group that can be skipped; None for files that are read from their
    beginning.
    """
    if not isinstance(reader, ParquetReader):
        return None
    metadata = reader.metadata
    return tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))


def _flat_leaves(schema: pa.Schema) -> dict[str, int]:
    """Return the leaf column of every top-level column in front of the first nested one."""
    leaves: dict[str, int] = {}
    for i, field in enumerate(schema):
        if pa.types.is_nested(field.type):
            break
        leaves[field.name] = i
    return leaves


def _column_stats(chunks: Sequence[Any], field: DataField) -> ColumnStats:
    kind = arrow_type(field.type)
    statistics = [chunk.statistics for chunk in chunks]
    bounds = [
        (None, None)
        if stats is None or not stats.has_min_max
        else (internal_value(stats.min_raw, kind), internal_value(stats.max_raw, kind))
        for stats in statistics
    ]
    nulls = [-1 if stats is None or not stats.has_null_count else stats.null_count for stats in statistics]
    return ColumnStats(
        arrow_values([low for low, _ in bounds], kind),
        arrow_values([high for _, high in bounds], kind),
        np.array(nulls, np.int64),
    )
