"""This module has the statistics that a parquet footer has of the columns of its file, over all row
groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakecore.format.bounds import ColumnBounds, has_bounds, internal_value, leaves
from lakecore.format.parquet.footer_bytes import metadata_of
from lakecore.format.parquet.splice import fields as f
from lakecore.format.parquet.splice.fields import value
from lakecore.format.parquet.splice.footer import Footer
from lakecore.format.parquet.splice.reasons import SpliceReason, SpliceRefusal

__all__ = ["FooterBounds", "footer_bounds"]


@dataclass(frozen=True, slots=True)
class FooterBounds:
    """These are the bounds of a column as a footer states them."""

    bounds: ColumnBounds
    exact: bool
    """It is True when every row group that has a value has its exact bounds. Those of floats leave out
    NaN, and do not tell the sign of a zero.
    """


def footer_bounds(footer: Footer) -> Mapping[str, FooterBounds]:
    """Return the statistics of every top-level column; nested ones have none. Raises SpliceRefusal."""
    try:
        return _all_columns(footer, metadata_of(footer.thrift))
    except (pa.ArrowException, OSError, ValueError) as err:
        raise SpliceRefusal(SpliceReason.DAMAGED, f"{footer.path}: {err}") from err


def _all_columns(footer: Footer, metadata: Any) -> Mapping[str, FooterBounds]:
    schema = metadata.schema.to_arrow_schema()
    bounds: dict[str, FooterBounds] = {}
    leaf = 0
    for field in schema:
        if pa.types.is_nested(field.type):
            bounds[field.name] = FooterBounds(ColumnBounds(), exact=False)
        else:
            bounds[field.name] = _over_groups(footer, metadata, leaf, field.type)
        leaf += leaves(field.type)
    return bounds


def _over_groups(footer: Footer, metadata: Any, leaf: int, kind: pa.DataType) -> FooterBounds:
    low = high = None
    nulls: int | None = 0
    exact = has_bounds(kind)
    for number, group in enumerate(footer.groups):
        column = metadata.row_group(number).column(leaf)
        stats = column.statistics
        null_count = None if stats is None or not stats.has_null_count else stats.null_count
        nulls = None if nulls is None or null_count is None else nulls + null_count
        if null_count == column.num_values or not exact:
            continue
        if stats is None or not stats.has_min_max or _cut(group.chunks[leaf].meta):
            exact = False
            continue
        ends = internal_value(stats.min_raw, kind), internal_value(stats.max_raw, kind)
        low = ends[0] if low is None or ends[0] < low else low
        high = ends[1] if high is None or ends[1] > high else high
    return FooterBounds(ColumnBounds(low, high, nulls) if exact else ColumnBounds(null_count=nulls), exact)


def _cut(meta: Any) -> bool:
    """Return whether a writer says that the bounds were cut, or has only those of an old kind."""
    stats = value(meta, f.META_STATISTICS, {})
    old = f.STATS_MIN not in stats or f.STATS_MAX not in stats
    return old or any(value(stats, field, True) is False for field in (f.STATS_MAX_EXACT, f.STATS_MIN_EXACT))
