"""This module merges a source into a table, as MERGE INTO of SQL does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.metadata.schema import TableSchema
from lakecore.predicate.tree import In, Predicate
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import AtomicType, TypeRoot
from lakecore.write.row_level.assignments import Assignments
from lakecore.write.row_level.changes import BatchChanges
from lakecore.write.row_level.clauses import MatchedRows, MergeRules, UnmatchedRows
from lakecore.write.row_level.conditions import matching_rows, parse_condition
from lakecore.write.rows.casting import cast_column

__all__ = ["MergeInto"]

_SOURCE = "source."
_MOST_VALUES = 1000
_ROW, _TARGET = "__row", "__target"
_NO_CLAUSE = -1
_INEXACT = (TypeRoot.FLOAT, TypeRoot.DOUBLE)


@dataclass(frozen=True, slots=True)
class _MatchedClause:
    """This is a clause WHEN MATCHED, ready to be applied."""

    action: MatchedRows
    condition: pc.Expression | Predicate | None
    assignments: Assignments


@dataclass
class MergeInto:
    """It merges the rows of `source`, which is in memory, by the equality of the columns `on`.

    `assignments` has the table's schema and options.
    """

    source: pa.Table
    on: tuple[str, ...]
    rules: MergeRules
    assignments: Assignments
    _matched: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.rules.check()
        self.source = _checked_source(self.source, self.on, self.schema)
        self._matched = np.zeros(self.source.num_rows, dtype=np.bool_)
        for clause in self._when_matched:
            if clause.action is MatchedRows.UPDATE:
                clause.assignments.check()
        if any(action is UnmatchedRows.INSERT for action, _ in self._when_not_matched):
            self._check_insertable()

    @cached_property
    def _when_matched(self) -> tuple[_MatchedClause, ...]:
        shared = [name for name in self.schema.row_type.names if name in self.source.column_names]
        same_names = {name: pc.field(_SOURCE + name) for name in shared if name not in self.on}
        columns = pa.schema([*arrow_schema(self.schema.row_type), *self._source_columns])
        return tuple(
            _MatchedClause(
                one.action,
                parse_condition(one.condition, columns),
                replace(self.assignments, values=one.set or same_names),
            )
            for one in self.rules.when_matched
        )

    @cached_property
    def _when_not_matched(self) -> tuple[tuple[UnmatchedRows, pc.Expression | Predicate | None], ...]:
        columns = pa.schema(self._source_columns)
        return tuple(
            (one.action, parse_condition(one.condition, columns)) for one in self.rules.when_not_matched
        )

    @property
    def _source_columns(self) -> list[pa.Field]:
        return [one.with_name(_SOURCE + one.name) for one in self.source.schema]

    @property
    def schema(self) -> TableSchema:
        """Return the schema of the table."""
        return self.assignments.schema

    @property
    def predicate(self) -> Predicate | None:
        """Return the values of the first column of `on`, where they are few and all other rows stay."""
        name = self.on[0]
        data_type = self.schema.row_type.field(name).type
        if self.rules.delete_not_matched_by_source or not isinstance(data_type, AtomicType):
            return None
        if data_type.root not in (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.VARCHAR):
            return None
        values = pc.unique(self.source.column(name)).drop_null()
        return In(name, tuple(values.to_pylist())) if len(values) <= _MOST_VALUES else None

    @cached_property
    def _keys(self) -> pa.Table:
        rows = pa.array(np.arange(self.source.num_rows, dtype=np.int64))
        return self.source.select(list(self.on)).append_column(_ROW, rows)

    def changes(self, batch: pa.RecordBatch) -> BatchChanges:
        """Return the changes of some rows of the table. Raises InvalidInputError when two rows of the source
        match one row.
        """
        source_of = self._source_rows(batch)
        hits = source_of >= 0
        clause_of = np.full(len(hits), _NO_CLAUSE, dtype=np.int64)
        updated = []
        if self._when_matched and hits.any():
            rows = batch.filter(pa.array(hits))
            inputs = self._inputs(rows, source_of[hits])
            chosen = _first_true([one.condition for one in self._when_matched], inputs)
            clause_of[hits] = chosen
            for number, clause in enumerate(self._when_matched):
                own = pa.array(chosen == number)
                if clause.action is MatchedRows.UPDATE and pc.any(own).as_py():
                    updated.append(clause.assignments.of(rows.filter(own), inputs.filter(own)))
        actions = [one.action for one in self._when_matched]
        replaced = np.isin(clause_of, [n for n, one in enumerate(actions) if one is MatchedRows.UPDATE])
        going = np.isin(clause_of, [n for n, one in enumerate(actions) if one is MatchedRows.DELETE])
        if self.rules.delete_not_matched_by_source:
            going |= ~hits
        nothing = batch.slice(0, 0)
        deleted = batch.filter(pa.array(going)) if going.any() else nothing
        return BatchChanges(pa.array(replaced | going), pa.concat_batches(updated or [nothing]), deleted)

    def inserted(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the source that matched no row and that a clause inserts; columns that it lacks
        are null.
        """
        conditions = [condition for _, condition in self._when_not_matched]
        inserting = [
            n for n, (action, _) in enumerate(self._when_not_matched) if action is UnmatchedRows.INSERT
        ]
        rows = self.source.filter(pa.array(~self._matched))
        for batch in rows.combine_chunks().to_batches() if inserting else ():
            inputs = batch.rename_columns([_SOURCE + name for name in batch.schema.names])
            own = batch.filter(pa.array(np.isin(_first_true(conditions, inputs), inserting)))
            columns = [
                own.column(one.name) if one.name in own.schema.names else pa.nulls(len(own), one.type)
                for one in arrow_schema(self.schema.row_type)
            ]
            if own.num_rows:
                yield pa.RecordBatch.from_arrays(columns, schema=arrow_schema(self.schema.row_type))

    def _source_rows(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Return the row of the source that matches each row, -1 for none, and note those of the source that
        match. A null matches nothing.
        """
        target = pa.Table.from_batches([batch.select(list(self.on))])
        target = target.append_column(_TARGET, pa.array(np.arange(batch.num_rows, dtype=np.int64)))
        joined = target.join(self._keys, keys=list(self.on), join_type="inner")
        rows = joined.column(_TARGET).to_numpy()
        source_of = np.full(batch.num_rows, -1, dtype=np.int64)
        source_of[rows] = joined.column(_ROW).to_numpy()
        self._matched[joined.column(_ROW).to_numpy()] = True
        if len(rows) != len(np.unique(rows)) and self._when_matched:
            row = int(rows[np.flatnonzero(np.bincount(rows)[rows] > 1)[0]])
            key = ", ".join(f"{name}={batch.column(name)[row].as_py()!r}" for name in self.on)
            raise InvalidInputError(
                f"several rows of the source match the row with {key}; at most one may match"
            )
        return source_of

    def _inputs(self, rows: pa.RecordBatch, source_of: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Return rows beside the rows of the source that match them."""
        matches = self.source.take(pa.array(source_of)).combine_chunks()
        columns = {name: rows.column(name) for name in rows.schema.names}
        for name in matches.column_names:
            column = matches.column(name)
            columns[_SOURCE + name] = column.chunk(0) if column.num_chunks else pa.nulls(0, column.type)
        return pa.RecordBatch.from_pydict(columns)

    def _check_insertable(self) -> None:
        for one in self.schema.fields:
            if not one.type.nullable and one.name not in self.source.column_names:
                raise InvalidInputError(
                    f"column {one.name!r} must not be null, and the source lacks it, so its rows cannot "
                    f"be inserted"
                )


def _first_true(
    conditions: Sequence[pc.Expression | Predicate | None], inputs: pa.RecordBatch
) -> npt.NDArray[np.int64]:
    """Return for each row the number of the first condition that is true, `_NO_CLAUSE` without one."""
    chosen = np.full(inputs.num_rows, _NO_CLAUSE, dtype=np.int64)
    for number, condition in enumerate(conditions):
        chosen[(chosen == _NO_CLAUSE) & matching_rows(condition, inputs)] = number
    return chosen


def _checked_source(source: pa.Table, on: Sequence[str], schema: TableSchema) -> pa.Table:
    """Return the source with the types of the table's columns. Raises InvalidInputError."""
    if not on:
        raise InvalidInputError("no column to merge by; name at least one that both sides have")
    names = schema.row_type.names
    if len(set(source.column_names)) != len(source.column_names):
        raise InvalidInputError("the source has two columns of one name; rename one")
    for name in on:
        if name not in names or name not in source.column_names:
            raise InvalidInputError(f"column {name!r}: rows are merged by columns that table and source have")
        data_type = schema.row_type.field(name).type
        if not isinstance(data_type, AtomicType) or data_type.root in _INEXACT:
            raise InvalidInputError(f"column {name!r}: rows are not merged by nested or inexact values")
    missing = [name for name in schema.primary_keys if name not in on]
    if missing:
        raise InvalidInputError(
            f"a table with a primary key is merged by all columns of the key; add {', '.join(missing)}"
        )
    if _ROW in source.column_names:
        raise InvalidInputError(f"the source has a column {_ROW}; rename it")
    columns = {
        name: cast_column(column.combine_chunks(), schema.row_type.field(name).type, name)
        if name in names
        else column
        for name, column in zip(source.column_names, source.columns, strict=True)
    }
    return pa.table(columns)
