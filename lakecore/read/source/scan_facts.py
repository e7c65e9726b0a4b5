"""This module answers questions about the rows of a scan from metadata where that is exact; the rest is read.

Metadata is exact for files whose rows are all live rows of the table: those of splits that need no merge,
without retracting rows, less the rows of deletion vectors where these were counted. Conditions on partition
columns are decided by the plan; with any other condition all rows are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.errors import InvalidInputError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.schema import TableSchema
from lakecore.predicate.tree import (
    And,
    Compare,
    Comparison,
    In,
    IsNull,
    Or,
    Predicate,
    columns_of,
)
from lakecore.read.context import ReadContext
from lakecore.read.source.resolve_blobs import without_resolved_blobs
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.row.binary_row import decode_row
from lakecore.row.values import array_values, values_array
from lakecore.scan.split import Split, SplitPlan
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import AtomicType, DataField, RowType, TypeRoot, with_nullable

__all__ = [
    "Span",
    "certain_bounds",
    "certain_counts",
    "exact_splits",
    "partition_predicate",
]

Bounds = tuple[Any, Any]
Counts = npt.NDArray[np.int64]

_EXACT_BOUNDS = frozenset(
    {TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE, TypeRoot.DECIMAL}
)


class Span:
    """It collects the least and the greatest value of one column."""

    def __init__(self, field: DataField) -> None:
        self._name = field.name
        self._kind = field.type
        self._parts: list[pa.Array] = []
        if not isinstance(field.type, AtomicType) or field.type.root in (TypeRoot.VARIANT, TypeRoot.BLOB):
            raise InvalidInputError(
                f"column {field.name}: values of type {field.type} have no order; select other columns"
            )

    def add_certain(self, rows: SnapshotRows, split: Split) -> bool:
        """Add the bounds of a split if its files tell them, and return whether they do."""
        bounds = certain_bounds(rows, split, self._name)
        if bounds is not None:
            self._parts.append(values_array(bounds, self._kind))
        return bounds is not None

    def add(self, column: pa.Array) -> None:
        """Add values of the column."""
        self._parts.append(_ends(column))

    @property
    def bounds(self) -> tuple[pa.Scalar, pa.Scalar]:
        """Return the least and the greatest of what was added."""
        ends = _ends(pa.concat_arrays([*self._parts, values_array([], self._kind)]))
        return ends[0], ends[1]


def _ends(column: pa.Array) -> pa.Array:
    """Return an array of the least and the greatest value."""
    bounds = pc.min_max(column)
    return pa.concat_arrays([pa.repeat(bounds[end], 1) for end in ("min", "max")])


def exact_splits(source: Any, where: Predicate | None) -> SnapshotRows | None:
    """Return the source if the files of its splits may be counted instead of read, else None."""
    rows = without_resolved_blobs(source)
    if not isinstance(rows, SnapshotRows) or rows.retracts or rows.context.options.data_evolution:
        return None
    partitions = frozenset(rows.context.schema.partition_keys)
    return rows if where is None or columns_of(where) <= partitions else None


def certain_counts(rows: SnapshotRows, plan: SplitPlan) -> Counts:
    """Return the number of live rows of each split; -1 where its files do not tell."""
    if not len(plan):
        return np.zeros(0, np.int64)
    entries, order, heads = plan.entries, plan.order, plan.starts[:-1]
    deletes, is_counted = _delete_counts(plan)
    counts = np.add.reduceat(entries.row_count[order] - deletes[order], heads)
    certain = plan.raw_convertible & np.logical_and.reduceat(is_counted[order], heads)
    if rows.context.keyed:
        certain &= np.logical_and.reduceat(entries.delete_row_count[order] == 0, heads)
    return np.where(certain, counts, -1)


def _delete_counts(plan: SplitPlan) -> tuple[Counts, npt.NDArray[np.bool_]]:
    """Return how many rows of each entry are deleted, and whether they were counted."""
    entries = plan.entries
    counts, is_counted = np.zeros(len(entries), np.int64), np.ones(len(entries), np.bool_)
    names = entries.names() if plan.deletions else ()
    for lane, name in enumerate(names):
        place = entries.partition_of(lane), int(entries.bucket[lane]), name.decode()
        deletion = plan.deletions.get(place)
        if deletion is not None:
            is_counted[lane] = deletion.place.cardinality is not None
            counts[lane] = deletion.place.cardinality or 0
    return counts, is_counted


def certain_bounds(rows: SnapshotRows, split: Split, column: str) -> Bounds | None:
    """Return the least and the greatest value of a column in a split as internal values, both None where all
    are null; None if the files do not tell.

    Statistics of whole numbers, dates and decimals are exact; texts may be cut, and doubles may be NaN.
    """
    retracts = rows.context.keyed and any(file.delete_row_count != 0 for file in split.files)
    if not split.raw_convertible or retracts or any(split.deletions):
        return None
    schema = rows.context.schema
    data_type = schema.row_type.field(column).type
    if not isinstance(data_type, AtomicType) or data_type.root not in _EXACT_BOUNDS:
        return None
    if column in schema.partition_keys:
        values = decode_row(split.partition, schema.partition_type, rows.scanner.table)
        value = values[schema.partition_keys.index(column)]
        return value, value
    bounds = [_file_bounds(rows.context, file, column) for file in split.files]
    certain = [one for one in bounds if one is not None]
    if len(certain) < len(bounds):
        return None
    lows = [low for low, _ in certain if low is not None]
    highs = [high for _, high in certain if high is not None]
    return (min(lows), max(highs)) if lows else (None, None)


def _file_bounds(context: ReadContext, file: DataFile, column: str) -> Bounds | None:
    field = context.schema.row_type.field(column)
    stored = context.file_schema(file.schema_id)
    same = [one for one in stored.fields if one.id == field.id]
    if not same or with_nullable(same[0].type, True) != with_nullable(field.type, True):
        return None
    kind = _stats_type(stored, file)
    if same[0].name not in kind.names:
        return None
    at = kind.names.index(same[0].name)
    stats = file.value_stats
    low, high = (_stored_value(values, kind, at, file) for values in (stats.min_values, stats.max_values))
    nulls = stats.null_counts[at] if at < len(stats.null_counts) else None
    if low is None or high is None:
        return (None, None) if nulls == file.row_count else None
    return low, high


def _stats_type(schema: TableSchema, file: DataFile) -> RowType:
    row_type = schema.row_type
    return row_type if file.value_stats_cols is None else row_type.select(file.value_stats_cols)


def _stored_value(values: bytes, data_type: RowType, at: int, file: DataFile) -> Any:
    if int.from_bytes(values[:4], "big", signed=True) != len(data_type.fields):
        return None
    return decode_row(values, data_type, file.file_name)[at]


def partition_predicate(schema: TableSchema, rows: Any, table: str) -> Predicate:
    """Return the condition that selects the partitions that `rows` name.

    `rows` is an Arrow table, or mappings of partition columns to Python values; all name the same columns.
    Raises InvalidInputError for a column that is no partition column.
    """
    if not schema.partition_keys:
        raise InvalidInputError(f"table {table} has no partitions; use a condition on rows")
    data = rows if isinstance(rows, pa.Table) else _as_table(list(rows), schema)
    names = [name for name in data.column_names if name in schema.partition_keys]
    if data.num_rows == 0:
        return In(schema.partition_keys[0], ())
    for name in data.column_names:
        if name not in names:
            keys = ", ".join(schema.partition_keys)
            raise InvalidInputError(
                f"{name!r} is not a partition column of {table}; the partition columns are: {keys}"
            )
    columns = [_internal(data.column(name), name, schema) for name in names]
    distinct = tuple(dict.fromkeys(zip(*columns, strict=True)))
    if len(names) == 1 and all(value is not None for (value,) in distinct):
        return In(names[0], tuple(value for (value,) in distinct))
    return Or(tuple(And(tuple(_equals(*pair) for pair in zip(names, row, strict=True))) for row in distinct))


def _as_table(rows: Sequence[Mapping[str, Any]], schema: TableSchema) -> pa.Table:
    names = tuple(rows[0]) if rows else ()
    if any(tuple(row) != names for row in rows):
        raise InvalidInputError(
            "the rows name different partition columns; name the same ones in all of them"
        )
    fields = {field.name: arrow_type(field.type) for field in schema.partition_type}
    try:
        columns = {name: pa.array([row[name] for row in rows], fields.get(name)) for name in names}
    except (pa.ArrowInvalid, pa.ArrowTypeError) as err:
        raise InvalidInputError(f"a partition value does not have the type of its column: {err}") from err
    return pa.table(columns)


def _internal(column: pa.ChunkedArray, name: str, schema: TableSchema) -> list[Any]:
    data_type = schema.row_type.field(name).type
    try:
        values = pc.cast(column.combine_chunks(), arrow_type(data_type))
    except pa.ArrowInvalid as err:
        raise InvalidInputError(f"partition column {name} is {data_type}: {err}") from err
    return list(array_values(values, data_type))


def _equals(name: str, value: Any) -> Predicate:
    return IsNull(name) if value is None else Compare(name, Comparison.EQ, value)
