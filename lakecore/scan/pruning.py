"""Pruning leaves out files that cannot hold a row for which a predicate is true. In doubt a file is kept.

Rules of the format: files of an append table are pruned by the bounds of any column; files of a
primary-key table by their key columns only, since pruning a file must not bring back rows that it
overwrote (unless deletion vectors already hide them). Columns are matched by field id; a column that the
file's schema lacks is null, and one whose type changed decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.index.definition import READ_ENABLED
from lakecore.index.search import embedded_index, matching_rows, stored_columns
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.stats_rows import StatsPart, StatsRows
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.predicate.stats import ColumnStats, may_match
from lakecore.predicate.tree import (
    Compare,
    Comparison,
    In,
    Predicate,
    columns_of,
    conjuncts,
    equal_values,
    restricted,
)
from lakecore.row.bucket import assign_buckets
from lakecore.row.values import rows_batch
from lakecore.scan.partition_request import matching_partitions
from lakecore.scan.stats_columns import arities, row_column
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import DataField, RowType, with_nullable

__all__ = ["SchemaOf", "prune_buckets", "prune_files", "prune_indexed", "prune_partitions"]

SchemaOf: TypeAlias = Callable[[int], TableSchema]
Mask: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[Any]

_MAX_KEYS = 1000
_INDEX_CHUNK = 4096


def prune_partitions(
    entries: ManifestEntries, predicate: Predicate, partition_type: RowType
) -> ManifestEntries:
    """Keep the entries of partitions for which the predicate can be true. This is exact for conditions on
    partitions.
    """
    condition = restricted(predicate, partition_type.names)
    if condition is None or not len(entries):
        return entries
    matches = matching_partitions(entries.partitions, condition, partition_type)
    return entries.select(matches[entries.partition])


def prune_buckets(
    entries: ManifestEntries, predicate: Predicate, schema: TableSchema, schema_of: SchemaOf
) -> ManifestEntries:
    """Keep the entries of buckets that a predicate on all bucket keys can reach (`=` and `in`, few
    values).
    """
    options = TableOptions.from_schema(schema)
    if options.bucket_mode is not BucketMode.HASH_FIXED or not schema.bucket_keys or not len(entries):
        return entries
    keys = schema.row_type.select(schema.bucket_keys)
    rows = _key_rows(predicate, keys)
    if rows is None or not _same_types(entries, keys, schema_of):
        return entries
    keep = np.ones(len(entries), np.bool_)
    batch = rows_batch(rows, keys, arrow_schema(keys))
    for total in np.unique(entries.total_buckets).tolist():
        if total > 0:
            buckets = assign_buckets(batch, keys, total, options.bucket_function.value)
            keep &= (entries.total_buckets != total) | np.isin(entries.bucket, buckets)
    return entries.select(keep)


def _key_rows(predicate: Predicate, keys: RowType) -> list[tuple[Any, ...]] | None:
    """Return the bucket keys for which the predicate can be true, or None when they are not few."""
    values: dict[str, tuple[Any, ...]] = {}
    for part in conjuncts(predicate):
        match part:
            case Compare(column=column, op=Comparison.EQ, value=value):
                values[column] = (value,)
            case In(column=column, values=listed) if column not in values:
                values[column] = listed
    if any(name not in values for name in keys.names):
        return None
    columns = [equal_values(values[field.name], field.type) for field in keys.fields]
    count = int(np.prod([len(column) for column in columns]))
    return list(product(*columns)) if 0 < count <= _MAX_KEYS else None


def _same_types(entries: ManifestEntries, keys: RowType, schema_of: SchemaOf) -> bool:
    """Return whether the rows were hashed with the types that the keys have now."""
    for schema_id in np.unique(entries.schema_id).tolist():
        fields = {field.id: field for field in schema_of(schema_id).fields}
        for key in keys.fields:
            if key.id not in fields or not _same_type(fields[key.id], key):
                return False
    return True


def _same_type(left: DataField, right: DataField) -> bool:
    return with_nullable(left.type, True) == with_nullable(right.type, True)


def prune_files(
    entries: ManifestEntries,
    predicate: Predicate,
    schema: TableSchema,
    schema_of: SchemaOf,
    *,
    unique: bool = False,
) -> ManifestEntries:
    """Keep the entries whose statistics allow a matching row. It costs some us a file; values are not
    decoded.

    `unique`: every row in these files is a row of the table, or deleted; no file hides rows of another.
    """
    by_key = bool(schema.primary_keys) and not unique
    part = StatsPart.KEY if by_key else StatsPart.VALUE
    usable = schema.trimmed_primary_keys if by_key else schema.row_type.names
    condition = restricted(predicate, usable)
    if condition is None or not len(entries):
        return entries
    keep = np.ones(len(entries), np.bool_)
    columns = [field for field in schema.fields if field.name in columns_of(condition)]
    for lanes, stats in entries.stats(part):
        for schema_id in np.unique(entries.schema_id[lanes]).tolist():
            inside = np.flatnonzero(entries.schema_id[lanes] == schema_id)
            lookup = _Lookup(schema_of(schema_id), part, columns)
            rows = entries.row_count[lanes[inside]]
            keep[lanes[inside]] = lookup.keep(stats, inside, rows, condition)
    return entries.select(keep)


def prune_indexed(
    entries: ManifestEntries, predicate: Predicate, schema: TableSchema, schema_of: SchemaOf
) -> ManifestEntries:
    """Keep the entries whose indexes, if the manifest embeds them, allow a matching row.

    Use it only for files that are read alone. It costs some 100 us a file with such an index. Raises
    CorruptDataError.
    """
    if not READ_ENABLED.read(schema.options):
        return entries
    candidates = np.flatnonzero(entries.extra_hash != 0)
    keep = np.ones(len(entries), np.bool_)
    columns: dict[int, dict[str, DataField]] = {}
    for low in range(0, len(candidates), _INDEX_CHUNK):
        lanes = candidates[low : low + _INDEX_CHUNK]
        for lane, file in zip(lanes.tolist(), entries.files(lanes), strict=True):
            if file.schema_id not in columns:
                index_columns = stored_columns(columns_of(predicate), schema, schema_of(file.schema_id))
                columns[file.schema_id] = index_columns
            index = embedded_index(file) if columns[file.schema_id] else None
            if index is not None:
                rows = matching_rows(predicate, columns[file.schema_id], index)
                keep[lane] = rows is None or bool(rows)
    return entries.select(keep)


@dataclass(frozen=True, slots=True)
class _Lookup:
    """A search for wanted columns, which uses the statistics of files of one schema."""

    file_schema: TableSchema
    part: StatsPart
    fields: Sequence[DataField]

    def keep(self, stats: StatsRows, inside: Ints, rows: Ints, condition: Predicate) -> Mask:
        """Return which files to keep. `inside` tells which of `stats` to use; `rows` are their row counts."""
        out = np.ones(len(inside), np.bool_)
        low = arities(stats.buffer, stats.minimum[inside], stats.minimum_length[inside])
        high = arities(stats.buffer, stats.maximum[inside], stats.maximum_length[inside])
        for arity in np.unique(low).tolist():
            for code in np.unique(stats.column_code[inside]).tolist():
                same = (low == arity) & (high == arity) & (stats.column_code[inside] == code)
                lanes = np.flatnonzero(same)
                if len(lanes) and arity >= 0:
                    columns = self._columns(stats, inside[lanes], rows[lanes], arity, stats.columns[code])
                    out[lanes] = may_match(condition, columns, rows[lanes])
        return out

    def _columns(
        self, stats: StatsRows, lanes: Ints, rows: Ints, arity: int, listed: tuple[str, ...] | None
    ) -> dict[str, ColumnStats]:
        fields = {field.id: field for field in self.file_schema.fields}
        names = self._names(listed)
        out: dict[str, ColumnStats] = {}
        for table_field in self.fields:
            stored = fields.get(table_field.id)
            if stored is None:
                out[table_field.name] = ColumnStats(null_counts=rows.astype(np.int64))
            elif _same_type(stored, table_field) and stored.name in names:
                index = names.index(stored.name)
                if index < arity:
                    out[table_field.name] = _column_stats(stats, lanes, arity, index, table_field)
        return out

    def _names(self, listed: tuple[str, ...] | None) -> Sequence[str]:
        if self.part is StatsPart.KEY:
            return self.file_schema.trimmed_primary_keys
        return self.file_schema.row_type.names if listed is None else listed


def _column_stats(stats: StatsRows, lanes: Ints, arity: int, index: int, field: DataField) -> ColumnStats:
    bounds = [
        row_column(stats.buffer, start[lanes], length[lanes], arity=arity, index=index, data_type=field.type)
        for start, length in (
            (stats.minimum, stats.minimum_length),
            (stats.maximum, stats.maximum_length),
        )
    ]
    counted = index < stats.null_counts.shape[1]
    return ColumnStats(bounds[0], bounds[1], stats.null_counts[lanes, index] if counted else None)
