"""This module decides which files a range of rows may lie in, by the statistics of the files. No IO; in doubt
a file is read.

A row is not before the keys of the lowest values of its file, nor behind those of the highest: that holds for
`order` and `zorder`, not along a hilbert curve. Statistics that are wrong are found by the proof, which
counts the rows that were read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from lakecore.compact.kinds.sort.plan import Bounds
from lakecore.errors import CorruptDataError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import decode_row
from lakecore.row.sort_rule import OrderStrategy, SortRule
from lakecore.row.values import rows_batch
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import AtomicType, DataField, RowType, TypeRoot, with_nullable
from lakecore.verify.proof.sorted_rows import Bound

__all__ = ["Edges", "file_edges", "files_by_range"]

Edges = tuple[Bound | None, Bound | None]
"""No row of a file is below the first key, and none is above the second; None means not known."""

_UNKNOWN: Edges = (None, None)
_TYPES = (
    TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE, TypeRoot.TIME,
    TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ, TypeRoot.CHAR, TypeRoot.VARCHAR,
)  # fmt: skip


def file_edges(
    files: Sequence[DataFile], rule: SortRule, schema: TableSchema, schemas: Mapping[int, TableSchema]
) -> list[Edges]:
    """Return the edges of each file. `schemas` are those of the files, by id. It decodes two rows of
    statistics per file.
    """
    fields = tuple(schema.row_type.field(name) for name in rule.columns)
    if rule.strategy is OrderStrategy.HILBERT or not all(map(_has_bounds, fields)):
        return [_UNKNOWN] * len(files)
    edges = [_statistics(file, fields, schemas[file.schema_id]) for file in files]
    lows = _keys([low for low, _ in edges], fields, rule)
    return list(zip(lows, _keys([high for _, high in edges], fields, rule), strict=True))


def files_by_range(edges: Sequence[Edges], bounds: Bounds) -> tuple[tuple[int, ...], ...]:
    """Return, for each range between `bounds`, the places of the files that may have rows in it.

    Every file is in one of them; one whose edges make no sense is in all.
    """
    ranges = list(pairwise((None, *bounds, None)))
    reached = [
        [at for at, (low, high) in enumerate(ranges) if _meet(low, high, lowest, highest)]
        for lowest, highest in edges
    ]
    return tuple(
        tuple(file for file, places in enumerate(reached) if at in places or not places)
        for at in range(len(ranges))
    )


def _meet(low: Bound | None, high: Bound | None, lowest: Bound | None, highest: Bound | None) -> bool:
    if low is not None and highest is not None and highest < low:
        return False
    return high is None or lowest is None or lowest < high


def _has_bounds(field: DataField) -> bool:
    return isinstance(field.type, AtomicType) and field.type.root in _TYPES


def _statistics(
    file: DataFile, fields: Sequence[DataField], schema: TableSchema
) -> tuple[tuple[Any, ...] | None, tuple[Any, ...] | None]:
    """Return the lowest and highest values of `fields`. Rows with nulls come first, so that the lowest is not
    known.
    """
    stats, by_name = file.value_stats, {field.name: field for field in schema.fields}
    names = tuple(by_name) if file.value_stats_cols is None else file.value_stats_cols
    names = names[: next((at for at, name in enumerate(names) if name not in by_name), len(names))]
    row_type = RowType(tuple(by_name[name] for name in names))
    places = [_place(row_type, field) for field in fields]
    if None in places:
        return None, None
    try:
        low, high = decode_row(stats.min_values, row_type), decode_row(stats.max_values, row_type)
    except CorruptDataError:
        return None, None
    at = [place for place in places if place is not None]
    lows, highs = tuple(low[place] for place in at), tuple(high[place] for place in at)
    whole = all(place < len(stats.null_counts) and stats.null_counts[place] == 0 for place in at)
    return lows if whole and None not in lows else None, None if None in highs else highs


def _place(data_type: RowType, field: DataField) -> int | None:
    """Return where statistics have the column, as the same column with the same type."""
    for at, other in enumerate(data_type.fields):
        if other.id == field.id:
            return at if with_nullable(other.type, True) == with_nullable(field.type, True) else None
    return None


def _keys(
    rows: Sequence[tuple[Any, ...] | None], fields: tuple[DataField, ...], rule: SortRule
) -> list[Bound | None]:
    rows_with_key = [row for row in rows if row is not None]
    if not rows_with_key:
        return [None] * len(rows)
    row_type = RowType(tuple(DataField(f.id, f.name, with_nullable(f.type, True)) for f in fields))
    keys = rule.keys(rows_batch(rows_with_key, row_type, arrow_schema(row_type)).columns)
    columns = zip(*(key.to_pylist() for key in keys), strict=True)
    return [None if row is None else next(columns) for row in rows]
