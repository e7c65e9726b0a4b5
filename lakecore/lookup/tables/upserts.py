"""This module applies changes to a full cache: rows with their kinds, in the order in which they were made.

Rule of Paimon's PrimaryKeyLookupTable: the last change of a key counts; an inserted row that does not meet
the condition removes its key; and where the table has sequence fields, a change whose sequence is lower than
that of the present row is left out. Beyond it, a deleted row keeps its sequence, as in the merge of the
table: a row with a lower one does not bring its key back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.lookup.tables.cache_state import CacheState
from lakecore.lookup.tables.key_bytes import KeyBytes
from lakecore.lookup.tables.run import Places, last_rows
from lakecore.merge.row_order import in_total_order
from lakecore.metadata.row_kind import KIND_NAME, RowKind
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Predicate

__all__ = ["ChangeRules", "apply_changes", "loaded_rows", "sequence_ranks"]

Flags = npt.NDArray[np.bool_]
_ADDS = np.array([int(RowKind.INSERT), int(RowKind.UPDATE_AFTER)], np.int8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRules:
    """They say how changes of a table are applied."""

    where: Predicate | None
    """Only rows for which it is true are kept."""
    sequence: tuple[str, ...]
    """These columns order the rows of a key; none if the order of the changes counts. With them the cache
    keeps deleted rows.
    """
    descending: bool
    """It tells whether the row with the lowest sequence is the newest."""
    ignores_retracts: bool
    """It tells whether deletes and the rows before updates are left out."""


def apply_changes(state: CacheState, batch: pa.RecordBatch, rules: ChangeRules) -> CacheState:
    """Return the state after the changes of a batch, whose last column is the row kind.

    The cost is that of a lookup of the keys of the batch; with sequence fields some 2 us a row more.
    """
    adds = _is_added(batch)
    primary = state.layout.primary
    if primary is None:
        changes = adds if rules.where is None else adds & _flags(mask(rules.where, batch))
        return state.changed(None, [_stored_rows(batch.filter(pa.array(changes)), state)])
    if rules.ignores_retracts and not adds.all():
        batch = batch.filter(pa.array(adds))
        adds = np.ones(batch.num_rows, np.bool_)
    if not batch.num_rows:
        return state
    keys = primary.encode(batch)
    last = _winners(state, batch, keys, rules) if rules.sequence else last_rows(keys)
    if not len(last):
        return state
    batch, adds = batch.take(pa.array(last)), adds[last]
    if rules.where is not None:
        adds = adds & _flags(mask(rules.where, batch))
    changes = _with_deletes(batch, adds) if rules.sequence else batch.filter(pa.array(adds))
    return state.changed(_keys_at(keys, last), [_stored_rows(changes, state)])


def loaded_rows(batch: pa.RecordBatch, rules: ChangeRules, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows to store of a batch of all rows, which has their kinds if deleted rows are kept."""
    if rules.sequence:
        adds = _is_added(batch)
        if rules.where is not None:
            adds = adds & _flags(mask(rules.where, batch))
        batch = _with_deletes(batch, adds)
    return stored_columns(batch, schema)


def sequence_ranks(columns: Sequence[pa.Array], *, descending: bool) -> list[int]:
    """Return a number for each row that is higher for a newer sequence, and the same for the same one. Nulls
    are lowest in both directions.
    """
    names = [str(i) for i in range(len(columns))]
    plain = [in_total_order(column) for column in columns]
    table = pa.table(plain, names=names)
    flags = [pc.is_valid(column) for column in plain]
    for name, valid in zip(names, flags, strict=True):
        table = table.append_column(f"valid {name}", pc.cast(valid, pa.int8()))
    order = "descending" if descending else "ascending"
    keys = [key for name in names for key in ((f"valid {name}", "ascending"), (name, order))]
    rows = np.array(pc.sort_indices(table, sort_keys=keys), np.int64)
    ordered = table.select(names).take(pa.array(rows))
    new = np.zeros(max(len(rows) - 1, 0), np.bool_)
    for column in ordered.columns:
        one = column.combine_chunks()
        same = pc.fill_null(pc.equal(one[1:], one[:-1]), False)
        both = pc.and_(pc.is_null(one[1:]), pc.is_null(one[:-1]))
        new |= ~_flags(pc.or_(same, both))
    ranks = np.zeros(len(rows), np.int64)
    ranks[rows] = np.concatenate([[0], np.cumsum(new)]) if len(rows) else []
    numbers: list[int] = ranks.tolist()
    return numbers


def _winners(state: CacheState, batch: pa.RecordBatch, keys: KeyBytes, rules: ChangeRules) -> Places:
    """Return the row of each key that decides what becomes of it; none where the present row stays."""
    codes = keys.values.combine_chunks().dictionary_encode().indices.to_numpy()
    first = np.full(int(codes.max()) + 1, -1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    numbers, present = state.rows_of(_keys_at(keys, first))
    columns = [
        pa.concat_arrays([
            present.column(name).combine_chunks().cast(batch.column(name).type),
            batch.column(name),
        ])
        for name in rules.sequence
    ]  # fmt: skip
    ranks = sequence_ranks(columns, descending=rules.descending)
    current: dict[int, int] = dict(zip(numbers.tolist(), ranks[: len(numbers)], strict=True))
    winner: dict[int, int] = {}
    changes = zip(codes.tolist(), ranks[len(numbers) :], strict=True)
    for row, (key, rank) in enumerate(changes):
        before = current.get(key)
        if before is None or before <= rank:
            current[key] = rank
            winner[key] = row
    return np.sort(np.array(list(winner.values()), np.int64))


def _with_deletes(batch: pa.RecordBatch, adds: Flags) -> pa.RecordBatch:
    """Return the rows with the kind insert, or delete for those that are none of `adds`."""
    kinds = np.where(adds, int(RowKind.INSERT), int(RowKind.DELETE)).astype(np.int8)
    place = batch.schema.get_field_index(KIND_NAME)
    return batch.set_column(place, pa.field(KIND_NAME, pa.int8()), pa.array(kinds))


def _keys_at(keys: KeyBytes, rows: Places) -> KeyBytes:
    return KeyBytes(keys.values.take(pa.array(rows)), keys.hashes[rows], keys.complete[rows])


def _stored_rows(batch: pa.RecordBatch, state: CacheState) -> pa.RecordBatch:
    return stored_columns(batch, state.layout.schema)


def stored_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of `schema`, in its types."""
    columns = [batch.column(field.name) for field in schema]
    same = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(same, schema=schema)


def _is_added(batch: pa.RecordBatch) -> Flags:
    """Return which rows of a change are inserts or new values."""
    return np.isin(batch.column(KIND_NAME).cast(pa.int8()).to_numpy(zero_copy_only=False), _ADDS)


def _flags(values: pa.Array) -> Flags:
    return np.asarray(values.to_numpy(zero_copy_only=False))
