"""This module has the statistics that a parquet footer has of the columns of its file, over all row
groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from lakecore.format.bounds import ColumnBounds, has_bounds, internal_value, leaves
from lakecore.format.parquet.thrift_compact import WireType
from lakecore.format.parquet.thrift_spans import walk

__all__ = ["BOUNDS", "footer_bounds", "has_any_bounds", "has_exact_bounds"]

# field ids of parquet.thrift
_OLD_MAX, _OLD_MIN, _MAX, _MIN, _MAX_EXACT, _MIN_EXACT = 1, 2, 5, 6, 7, 8
BOUNDS = _OLD_MAX, _OLD_MIN, _MAX, _MIN, _MAX_EXACT, _MIN_EXACT
"""These are the fields of statistics that have bounds, or say what bounds are."""


def has_any_bounds(statistics: bytes | None) -> bool:
    """Return whether statistics of a column chunk (a thrift struct) have a bound of either kind."""
    return statistics is not None and not walk(statistics, 0)[0].keys().isdisjoint(BOUNDS)


def has_exact_bounds(statistics: bytes | None) -> bool:
    """Return whether statistics of a column chunk (a thrift struct) have bounds that are values of it: a
    writer may have cut them, or have only those of an old kind.
    """
    if statistics is None:
        return False
    fields, _ = walk(statistics, 0)
    cut = any(end in fields and fields[end][0] == WireType.FALSE for end in (_MAX_EXACT, _MIN_EXACT))
    return _MAX in fields and _MIN in fields and not cut


def footer_bounds(
    metadata: Any, is_exact: Callable[[int, int], bool], groups: Iterable[int] | None = None
) -> Mapping[str, ColumnBounds]:
    """Return the statistics of top-level columns by name, but for nested ones. `metadata` is pyarrow's;
    `is_exact` says of a row group and a leaf column whether its bounds are values, not cut ones. `groups` are
    the numbers of the row groups that count; None: all of them.

    A column of which a row group has no bounds has none, and no null count where one has none. Those of
    floats leave out NaN, and do not tell the sign of a zero: 0.0 is the lowest value, -0.0 the highest.
    """
    bounds: dict[str, ColumnBounds] = {}
    numbers = range(metadata.num_row_groups) if groups is None else tuple(groups)
    leaf = 0
    for field in metadata.schema.to_arrow_schema():
        if not pa.types.is_nested(field.type):
            bounds[field.name] = _over_groups((metadata, numbers), leaf, field.type, is_exact)
        leaf += leaves(field.type)
    return bounds


def _over_groups(
    source: tuple[Any, Iterable[int]],
    leaf: int,
    data_type: pa.DataType,
    is_exact: Callable[[int, int], bool],
) -> ColumnBounds:
    metadata, groups = source
    low = high = None
    nulls: int | None = 0
    has_ends = has_bounds(data_type)
    for group in groups:
        column = metadata.row_group(group).column(leaf)
        stats = column.statistics
        count = None if stats is None or not stats.has_null_count else stats.null_count
        nulls = None if nulls is None or count is None else nulls + count
        if count == column.num_values or not has_ends:
            continue
        if stats is None or not stats.has_min_max or not is_exact(group, leaf):
            has_ends = False
            continue
        ends = internal_value(stats.min_raw, data_type), internal_value(stats.max_raw, data_type)
        if ends[0] != ends[0] or ends[1] != ends[1]:  # some writer takes NaN for a bound
            has_ends = False
            continue
        low = ends[0] if low is None or ends[0] < low else low
        high = ends[1] if high is None or ends[1] > high else high
    if not has_ends:
        return ColumnBounds(null_count=nulls)
    if pa.types.is_floating(data_type):
        low, high = (0.0 if low == 0 else low), (-0.0 if high == 0 else high)
    return ColumnBounds(low, high, nulls)
