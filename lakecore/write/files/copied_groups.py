"""This module describes some row groups of a file, or runs of pages, which are copied without the others, as
a file.

A footer has bounds of each row group. Those of numbers must be there and be values, because readers take the
bounds of a file for values. Those of text may be cut, and those of floats leave out NaN and signs of zeros.
For these the bounds of the whole file are taken, which enclose them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from lakecore.errors import CorruptDataError
from lakecore.format.bounds import ColumnBounds
from lakecore.format.corruption import corrupt_data_errors
from lakecore.format.parquet.footer_bounds import footer_bounds
from lakecore.format.parquet.footer_bytes import metadata_of
from lakecore.format.parquet.splice.footer import Footer
from lakecore.format.parquet.splice.groups_footer import groups_footer
from lakecore.format.statistics import (
    StatsKind,
    StatsMode,
    recorded_bounds,
    recorded_key_bounds,
    simple_stats,
)
from lakecore.metadata.key_value import key_fields
from lakecore.metadata.manifest.data_file import DataFile, SimpleStats
from lakecore.metadata.row_kind import SEQUENCE_NAME
from lakecore.metadata.schema import TableSchema
from lakecore.types.datatypes import RowType
from lakecore.write.files.merged_bounds import MergedBounds

__all__ = ["GroupBounds", "describe_groups", "group_bounds"]

GroupBounds: TypeAlias = Mapping[str, ColumnBounds]
"""These are the bounds of the columns of one row group, by stored name."""


def group_bounds(file: DataFile, schema: TableSchema, footer: Footer) -> tuple[GroupBounds | None, ...]:
    """Return the bounds of each row group or run of pages; None for one of which a number has none, or has
    bounds that may not be values: it must be decoded. `schema` is that of the file.
    """
    whole = recorded_bounds(file, schema.row_type) | recorded_key_bounds(file, schema.key_type)
    try:
        with corrupt_data_errors(footer.path):
            metadata = metadata_of(groups_footer(footer))
            return tuple(
                _with_recorded(footer_bounds(metadata, footer.has_values, [number]), whole, group.rows)
                for number, group in enumerate(footer.groups)
            )
    except CorruptDataError:
        return (None,) * len(footer.groups)


def describe_groups(
    file: DataFile,
    schema: TableSchema,
    groups: Sequence[tuple[int, GroupBounds]],
    keys: tuple[bytes, bytes],
) -> DataFile:
    """Return the entry of `file` as that of some of its row groups: their rows and bounds. `keys` are the
    first and the last one, serialised. None of the rows is a delete.
    """
    merged = MergedBounds()
    for rows, bounds in groups:
        merged.add(rows, bounds)
    bounds = merged.finish()
    numbers = bounds[SEQUENCE_NAME]
    values, columns = _stats(bounds, schema.row_type, dense=True)
    key_type = RowType(key_fields(schema))
    return replace(
        file,
        row_count=sum(rows for rows, _ in groups),
        min_key=keys[0],
        max_key=keys[1],
        key_stats=_stats(bounds, key_type, dense=False)[0],
        value_stats=values,
        value_stats_cols=columns,
        min_sequence_number=numbers.minimum,
        max_sequence_number=numbers.maximum,
        delete_row_count=0,
    )


def _with_recorded(stated: GroupBounds, whole: GroupBounds, rows: int) -> GroupBounds | None:
    """Return the bounds of a row group of `rows` rows; None where those of a number are not known."""
    numbers = stated.get(SEQUENCE_NAME, ColumnBounds())
    if numbers.minimum is None or numbers.maximum is None:
        return None
    bounds = {SEQUENCE_NAME: numbers}
    for name, group in stated.items():
        recorded = whole.get(name, ColumnBounds())
        counted = ColumnBounds(null_count=group.null_count)
        if group.null_count == rows or (recorded.minimum is None and recorded.maximum is None):
            bounds.setdefault(name, counted)
        elif isinstance(recorded.minimum, float):
            bounds[name] = replace(recorded, null_count=group.null_count)
        elif group.minimum is not None and group.maximum is not None:
            bounds[name] = group
        elif isinstance(recorded.minimum, str):
            bounds[name] = replace(recorded, null_count=group.null_count)
        else:
            return None
    return bounds


def _stats(
    bounds: GroupBounds, row_type: RowType, *, dense: bool
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Return statistics that leave nothing out of the bounds."""
    modes = [StatsMode(StatsKind.FULL)] * len(row_type.fields)
    return simple_stats(bounds, row_type, modes, dense=dense)
