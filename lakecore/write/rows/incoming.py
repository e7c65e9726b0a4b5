"""This module converts the caller's batches to rows of the table: columns by name, types, defaults, NOT NULL,
row kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.metadata.options import MergeEngine, TableOptions
from lakecore.metadata.row_kind import SYMBOLS, RowKind, is_retract
from lakecore.metadata.schema import TableSchema
from lakecore.read.columns.default_value import default_value
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import DataField
from lakecore.write.rows.casting import cast_column, first_null

__all__ = [
    "ASSIGNED_KIND_COLUMN",
    "BUCKET_COLUMN",
    "KIND_COLUMN",
    "Incoming",
    "Rows",
    "batches_of",
    "column_of_table",
    "is_repeatable",
    "whole_batches_of",
]

KIND_COLUMN = "_kind"
BUCKET_COLUMN = "__lakecore_bucket"
"""This column has the buckets of rows that were assigned before they came to their writer."""
ASSIGNED_KIND_COLUMN = "__lakecore_kind"
"""This column has the kinds (int8) of rows whose keys may move between partitions, for an assigner adds rows
that delete a key in its old partition. Other kinds of such rows were read before.
"""

_BATCH_ROWS = 1 << 17


@dataclass(frozen=True, slots=True)
class Rows:
    """These are rows in the table's own types. `kinds` holds one RowKind per row as int8; None when all
    are inserts.
    """

    batch: pa.RecordBatch
    kinds: np.ndarray[Any, Any] | None = None
    buckets: np.ndarray[Any, Any] | None = None
    """These are the buckets of the rows, where another process assigned them."""


def batches_of(data: Any) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow table, batch, reader, pandas DataFrame, or anything with an Arrow stream.

    Raises InvalidInputError for other values.
    """
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif type(data).__module__.partition(".")[0] == "pandas":
        data = pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, pa.Table):
        return iter(data.to_batches(max_chunksize=_BATCH_ROWS))
    if isinstance(data, pa.RecordBatchReader):
        return _pieces(data)
    if hasattr(data, "__arrow_c_stream__"):
        return _pieces(pa.RecordBatchReader.from_stream(data))
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        return _checked_batches(data)
    raise InvalidInputError(
        f"cannot write {type(data).__name__}; pass an Arrow table, batches or a pandas frame"
    )


def whole_batches_of(data: Any) -> Iterable[pa.RecordBatch]:
    """Return a batch as it is, whatever its size, and the batches of other data. Raises as `batches_of`."""
    return (data,) if isinstance(data, pa.RecordBatch) else batches_of(data)


def is_repeatable(data: Any) -> bool:
    """Return whether `batches_of` can read these rows a second time."""
    whole = isinstance(data, pa.RecordBatch | pa.Table | list | tuple)
    return whole or type(data).__module__.partition(".")[0] == "pandas"


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            yield batch.slice(start, _BATCH_ROWS)


def _checked_batches(items: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    for item in items:
        if not isinstance(item, pa.RecordBatch | pa.Table):
            raise InvalidInputError(
                f"cannot write {type(item).__name__}; pass an Arrow table, batches or a pandas frame"
            )
        yield from batches_of(item)


class Incoming:
    """It converts batches to rows of one table; counts rows, so that errors name their position in the
    input.
    """

    def __init__(self, schema: TableSchema, options: TableOptions, *, assigned: bool = False) -> None:
        """`assigned`: the batches have the column `BUCKET_COLUMN`."""
        self._assigned = assigned
        self._row_type = schema.row_type
        self._arrow = arrow_schema(schema.row_type)
        self._keyed = bool(schema.primary_keys)
        self._partition_keys = schema.partition_keys
        self._options = options
        self._rows_seen = 0

    def rows(self, batch: pa.RecordBatch) -> Rows:
        """Convert a batch. Raises InvalidInputError naming column, row (from 0) and what does not fit.

        Rows that ignore-delete or ignore-update-before drop are missing in the result; they are counted.
        """
        buckets = assigned_kinds = None
        if self._assigned:
            buckets = batch.column(BUCKET_COLUMN).to_numpy()
            batch = batch.drop_columns([BUCKET_COLUMN])
        if self._assigned and ASSIGNED_KIND_COLUMN in batch.schema.names:
            assigned_kinds = batch.column(ASSIGNED_KIND_COLUMN).to_numpy()
            batch = batch.drop_columns([ASSIGNED_KIND_COLUMN])
        self._check_names(batch)
        columns = [self._column(batch, field) for field in self._row_type]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._arrow)
        kinds = self._kinds(batch, rows) if assigned_kinds is None else assigned_kinds
        self._rows_seen += batch.num_rows
        return self._without_ignored(Rows(rows, kinds, buckets))

    def check(self, columns: pa.Schema) -> None:
        """Raise InvalidInputError for columns that the table does not take, whatever values they have."""
        none = [pa.array([], field.type) for field in columns]
        self.rows(pa.RecordBatch.from_arrays(none, schema=columns))
        for field in self._row_type:
            if field.name in columns.names or field.default_value is not None:
                continue
            if not field.type.nullable:
                raise _missing_column(field)
            if field.name in self._partition_keys:
                raise InvalidInputError(
                    f"column {field.name} is missing from the data, and the table is partitioned by it; add "
                    "the column, with nulls for the default partition"
                )

    def _check_names(self, batch: pa.RecordBatch) -> None:
        names = batch.schema.names
        known_names = {*self._row_type.names, KIND_COLUMN}
        if unknown := [name for name in names if name not in known_names]:
            same = [name for name in self._row_type.names if name.lower() == unknown[0].lower()]
            remedy = f"; names are case-sensitive: rename it to {same[0]!r}" if same else ""
            raise InvalidInputError(
                f"column {unknown[0]!r} is not in the table; the table has the columns "
                f"{', '.join(self._row_type.names)}{remedy}"
            )
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInputError(f"column {twice!r} appears twice in the data")

    def _column(self, batch: pa.RecordBatch, field: DataField) -> pa.Array:
        column = column_of_table(batch, field)
        if column.null_count and not field.type.nullable:
            if field.name not in batch.schema.names:
                raise _missing_column(field)
            row = self._rows_seen + first_null(column)
            raise InvalidInputError(f"column {field.name} is NOT NULL: row {row} has no value")
        return column

    def _kinds(self, batch: pa.RecordBatch, rows: pa.RecordBatch) -> np.ndarray[Any, Any] | None:
        name = self._options.rowkind_field
        has_kinds = KIND_COLUMN in batch.schema.names
        if name is not None and has_kinds:
            raise InvalidInputError(
                f"the data has {KIND_COLUMN}, but kinds of this table come from column {name} (rowkind.field)"
            )
        if name is None and not has_kinds:
            return None
        kinds = self._codes(batch.column(KIND_COLUMN) if name is None else rows.column(name), name)
        if not kinds.any():
            return None
        self._check_first_row(kinds)
        if not self._keyed:
            row = self._rows_seen + int(np.flatnonzero(kinds)[0])
            raise InvalidInputError(
                f"row {row} is {RowKind(int(kinds.max())).symbol}: a table without primary key "
                "accepts only +I"
            )
        return kinds

    def _check_first_row(self, kinds: np.ndarray[Any, Any]) -> None:
        """Refuse retractions: one in a file of such a table would make every later compaction fail."""
        refused = np.flatnonzero(is_retract(kinds))
        ignored = self._options.ignore_delete
        if self._options.merge_engine is MergeEngine.FIRST_ROW and len(refused) and not ignored:
            row, kind = int(refused[0]), RowKind(int(kinds[refused[0]]))
            raise UnsupportedError(
                f"row {self._rows_seen + row} is {kind.symbol}: merge-engine=first-row accepts "
                "no retractions; "
                "set option ignore-delete=true to leave them out"
            )

    def _codes(self, symbols: pa.Array, name: str | None) -> np.ndarray[Any, Any]:
        """Parse kinds by symbol. A null `_kind` is an insert; a null in a rowkind field is an error."""
        symbols = cast_column(symbols, _TEXT_FIELD.type, name or KIND_COLUMN)
        if name is None and symbols.null_count:
            symbols = pc.fill_null(symbols, RowKind.INSERT.symbol)
        codes = pc.index_in(symbols, value_set=pa.array(SYMBOLS))
        if codes.null_count:
            at = first_null(codes)
            raise InvalidInputError(
                f"column {name or KIND_COLUMN}, row {self._rows_seen + at}: {symbols[at].as_py()!r} is not a "
                "row kind; use +I, -U, +U or -D"
            )
        return np.asarray(codes.to_numpy()).astype(np.int8)

    def _without_ignored(self, rows: Rows) -> Rows:
        kinds = rows.kinds
        if kinds is None:
            return rows
        drop = np.zeros(len(kinds), bool)
        if self._options.ignore_delete:
            drop |= is_retract(kinds)
        if self._options.ignore_update_before:
            drop |= kinds == RowKind.UPDATE_BEFORE
        if not drop.any():
            return rows
        buckets = None if rows.buckets is None else rows.buckets[~drop]
        return Rows(rows.batch.filter(pa.array(~drop)), kinds[~drop], buckets)


def column_of_table(batch: pa.RecordBatch, field: DataField) -> pa.Array:
    """Return a column in the type of the table, with its default in place of nulls; a missing one has nulls.

    Raises InvalidInputError naming the column; nulls of a column that is NOT NULL are for the caller.
    """
    is_present = field.name in batch.schema.names
    column = batch.column(field.name) if is_present else pa.nulls(batch.num_rows)
    column = cast_column(column, field.type, field.name)
    if column.null_count and field.default_value is not None:
        column = pc.fill_null(column, default_value(field))
    return column


def _missing_column(field: DataField) -> InvalidInputError:
    return InvalidInputError(f"column {field.name} is NOT NULL, but is missing from the data")


_TEXT_FIELD = DataField.from_json({"id": 0, "name": KIND_COLUMN, "type": "STRING"})
