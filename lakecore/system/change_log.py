"""This module has `$audit_log` and `$binlog`: rows with their kinds as a column, including deletes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.format.parquet.not_null import fill_null_rows
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_FIELD_ID, SEQUENCE_NAME, RowKind
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Predicate, columns_of, restricted
from lakecore.read.columns.kind_texts import kind_texts
from lakecore.read.source.scan import RowSource
from lakecore.read.split.change_reader import with_kind
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import ArrayType, AtomicType, DataField, RowType, TypeRoot, with_nullable

__all__ = ["AuditRows", "BinlogRows", "audit_row_type", "binlog_row_type"]

_MAX_LENGTH = (1 << 31) - 1
_ROW_KIND = DataField(2147483643, "rowkind", AtomicType(TypeRoot.VARCHAR, length=_MAX_LENGTH, nullable=False))
_SEQUENCE = DataField(SEQUENCE_FIELD_ID, SEQUENCE_NAME, AtomicType(TypeRoot.BIGINT, nullable=False))


@dataclass(frozen=True)
class AuditRows:
    """These are the rows of `inner` as inserts, whose first column is the original kind: `+I`, `-U`, `+U`,
    `-D`.

    With `sequence` the sequence number that a row was written with is included.
    """

    inner: RowSource
    sequence: bool = False

    @property
    def description(self) -> str:
        return f"{self.inner.description}, audit log"

    @property
    def row_type(self) -> RowType:
        return audit_row_type(self.inner.row_type, sequence=self.sequence)

    def plan(self, where: Predicate | None) -> Sequence[Any]:
        return self.inner.plan(restricted(where, self.inner.row_type.names))

    def read(
        self, part: Any, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read a part. Raises the errors of `inner`."""
        inner_columns = _inner_columns(self.row_type.names[1:], columns, where)
        below = restricted(where, self.inner.row_type.names)
        for batch in self.inner.read(part, inner_columns, below, kinds=True):
            rows = batch.drop_columns([KIND_NAME])
            texts = kind_texts(batch.column(KIND_NAME))
            rows = rows.append_column(pa.field(_ROW_KIND.name, pa.string(), nullable=False), texts)
            yield from _choose(rows, columns, where, kinds=kinds)


@dataclass(frozen=True)
class BinlogRows:
    """It has one row per change, with its columns as lists: `[before, after]` of an update, `[row]` of any
    other change.
    """

    inner: RowSource
    paired: bool
    """The rows are those of a change stream. Rule of the format: a -U and the row after it are one change,
    whatever row that is (of the same part; a last -U stays alone), with the kind of the second.
    """
    sequence: bool = False
    """It tells whether to include the sequence number of a change's first row."""

    @property
    def description(self) -> str:
        return f"{self.inner.description}, binlog"

    @property
    def row_type(self) -> RowType:
        return binlog_row_type(self.inner.row_type, sequence=self.sequence)

    def plan(self, where: Predicate | None) -> Sequence[Any]:
        """Return all parts of `inner`: a condition on lists says nothing about the rows in them."""
        return self.inner.plan(None)

    def read(
        self, part: Any, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read a part. Raises the errors of `inner`."""
        inner_columns = _inner_columns(self.row_type.names[1:], columns, where)
        schema = arrow_schema(self.row_type.select((_ROW_KIND.name, *inner_columns)))
        rest: pa.RecordBatch | None = None
        for batch in self.inner.read(part, inner_columns, None, kinds=True):
            whole = batch if rest is None else pa.concat_batches([rest, batch])
            bounds = self._bounds(whole)
            rest = whole.slice(bounds[-1]) if bounds[-1] < whole.num_rows else None
            if len(bounds) > 1:
                yield from _choose(_pack(whole, bounds, schema), columns, where, kinds=kinds)
        if rest is not None:
            yield from _choose(_pack(rest, np.array([0, 1]), schema), columns, where, kinds=kinds)

    def _bounds(self, batch: pa.RecordBatch) -> Any:
        """Return where changes begin, and where the last one ends: before an update that is still
        incomplete.
        """
        place = np.arange(batch.num_rows)
        if not self.paired:
            return np.append(place, batch.num_rows)
        before = batch.column(KIND_NAME).to_numpy() == int(RowKind.UPDATE_BEFORE)
        since = place - np.maximum.accumulate(np.where(before, -1, place))  # the -U up to here, this one too
        opens = before & (since % 2 == 1)
        firsts = place[~np.append(False, opens[:-1])]
        return firsts if opens[-1] else np.append(firsts, batch.num_rows)


def _pack(batch: pa.RecordBatch, bounds: Any, schema: pa.Schema) -> pa.RecordBatch:
    """Return one row per change; its kind is that of the change's last row."""
    arrays = [kind_texts(batch.column(KIND_NAME).take(pa.array(bounds[1:] - 1)))]
    offsets = pa.array(bounds, pa.int32())
    for field in list(schema)[1:]:
        if field.name == SEQUENCE_NAME:
            arrays.append(batch.column(field.name).take(pa.array(bounds[:-1])))
            continue
        values = batch.column(field.name).slice(0, bounds[-1])
        if values.type != field.type.value_type:
            values = fill_null_rows(values).cast(field.type.value_type)
        arrays.append(pa.ListArray.from_arrays(offsets, values, type=field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def audit_row_type(rows: RowType, *, sequence: bool) -> RowType:
    """Return the columns of `$audit_log` for a table with the columns `rows`."""
    return RowType((*_special(sequence=sequence), *rows.fields))


def binlog_row_type(rows: RowType, *, sequence: bool) -> RowType:
    """Return the columns of `$binlog` for a table with the columns `rows`."""
    lists = (replace(field, type=ArrayType(with_nullable(field.type, True))) for field in rows)
    return RowType((*_special(sequence=sequence), *lists))


def _special(*, sequence: bool) -> tuple[DataField, ...]:
    return (_ROW_KIND, _SEQUENCE) if sequence else (_ROW_KIND,)


def _inner_columns(there: Sequence[str], columns: Sequence[str], where: Predicate | None) -> tuple[str, ...]:
    """Return the columns of the rows that are read; at least one, so that rows can be counted."""
    used = {*columns, *(columns_of(where) if where is not None else ())}
    return tuple(name for name in there if name in used) or (there[-1],)


def _choose(
    batch: pa.RecordBatch, columns: Sequence[str], where: Predicate | None, *, kinds: bool
) -> Iterator[pa.RecordBatch]:
    filtered = batch if where is None else batch.filter(mask(where, batch))
    if filtered.num_rows:
        chosen = filtered.select(list(columns))
        yield with_kind(chosen) if kinds else chosen
