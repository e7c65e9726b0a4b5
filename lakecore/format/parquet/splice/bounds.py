"""The statistics that a parquet footer has of the columns of its file, over all row groups."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakecore.format.bounds import ColumnBounds, has_bounds, internal_value, leaves
from lakecore.format.parquet.splice import fields as f
from lakecore.format.parquet.splice.fields import value
from lakecore.format.parquet.splice.footer import MAGIC, Footer
from lakecore.format.parquet.splice.reasons import Refused, SpliceReason

__all__ = ["FooterBounds", "footer_bounds"]

_NOT_EXACT = (7, 8)
"""Fields of statistics: whether the bounds are values of the column, or were cut."""


@dataclass(frozen=True, slots=True)
class FooterBounds:
    """What a footer says of a column. `exact`: every row group that has a value has its exact bounds; those
    of floats leave out NaN, and do not tell the sign of a zero.
    """

    bounds: ColumnBounds
    exact: bool


def footer_bounds(footer: Footer) -> Mapping[str, FooterBounds]:
    """Return the statistics of every top-level column; nested ones have none. Raises Refused."""
    try:
        metadata = _decoded(footer.thrift)
        return _all_columns(footer, metadata)
    except (pa.ArrowException, OSError, ValueError) as err:
        raise Refused(SpliceReason.DAMAGED, f"{footer.path}: {err}") from err


def _decoded(thrift: bytes) -> Any:
    """Return the footer as pyarrow's metadata: that of a file without data."""
    ends = struct.pack("<I", len(thrift)) + MAGIC
    return pq.read_metadata(pa.BufferReader(MAGIC + thrift + ends))


def _all_columns(footer: Footer, metadata: Any) -> Mapping[str, FooterBounds]:
    schema = metadata.schema.to_arrow_schema()
    found: dict[str, FooterBounds] = {}
    leaf = 0
    for field in schema:
        if pa.types.is_nested(field.type):
            found[field.name] = FooterBounds(ColumnBounds(), exact=False)
        else:
            found[field.name] = _over_groups(footer, metadata, leaf, field.type)
        leaf += leaves(field.type)
    return found


def _over_groups(footer: Footer, metadata: Any, leaf: int, kind: pa.DataType) -> FooterBounds:
    low = high = None
    nulls: int | None = 0
    exact = has_bounds(kind)
    for number, group in enumerate(footer.groups):
        column = metadata.row_group(number).column(leaf)
        stats = column.statistics
        known = None if stats is None or not stats.has_null_count else stats.null_count
        nulls = None if nulls is None or known is None else nulls + known
        if known == column.num_values or not exact:
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
    old = _STATS_MIN not in stats or _STATS_MAX not in stats
    return old or any(value(stats, field, True) is False for field in _NOT_EXACT)


_STATS_MAX, _STATS_MIN = 5, 6
