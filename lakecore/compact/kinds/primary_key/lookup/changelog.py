"""This module converts old and new rows to the rows of a change stream. Pure.

Rule of the format: a row that appeared is +I, one that went is -D with its old values, one that changed is -U
with the old values and then +U with the new ones. Each line keeps the sequence number of its own row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.merge.row_order import Bools, Indices
from lakecore.metadata.row_kind import KIND_NAME, RowKind, is_retract

__all__ = ["NOTHING", "ChangeLines", "KeyChanges", "SameValues", "change_rows"]

NOTHING = -1
"""In place of a row: there is none."""

SameValues = Callable[[pa.RecordBatch, pa.RecordBatch], Bools]
"""A function of this type tells which rows of two batches of one length count as equal."""


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """These are the changes of keys, which have one entry per key in key order. Its row in `old` is the
    one before, its row in `new` the one after, or NOTHING.

    A row that retracts counts as nothing.
    """

    old: pa.RecordBatch
    new: pa.RecordBatch
    before: Indices
    after: Indices


@dataclass(frozen=True, slots=True)
class ChangeLines:
    """The lines are in key order. `unchanged` are the numbers of keys whose row was replaced by an equal
    one.
    """

    rows: pa.RecordBatch
    unchanged: Indices


def change_rows(changes: KeyChanges, same: SameValues | None = None) -> ChangeLines:
    """Return the changelog lines. Rows that `same` finds equal are no change; with None, a row replaced by an
    equal one is a change.
    """
    before = _standing(changes.old, changes.before)
    after = _standing(changes.new, changes.after)
    has_row = (before >= 0) | (after >= 0)
    unchanged = np.empty(0, np.int64)
    if same is not None:
        both = np.flatnonzero((before >= 0) & (after >= 0))
        equal = same(changes.old.take(pa.array(before[both])), changes.new.take(pa.array(after[both])))
        unchanged = both[equal]
        has_row[unchanged] = False
    before, after = before[has_row], after[has_row]
    kinds = np.stack(
        (
            np.where(after >= 0, RowKind.UPDATE_BEFORE, RowKind.DELETE),
            np.where(before >= 0, RowKind.UPDATE_AFTER, RowKind.INSERT),
        ),
        axis=1,
    )
    there = np.stack((before >= 0, after >= 0), axis=1)
    lines = _interleave(changes.old, changes.new, before, after)
    at = lines.schema.get_field_index(KIND_NAME)
    rows = lines.set_column(at, lines.schema.field(at), pa.array(kinds[there], pa.int8()))
    return ChangeLines(rows, unchanged)


def _standing(batch: pa.RecordBatch, rows: Indices) -> Indices:
    """Return `rows` without those that retract."""
    if not batch.num_rows:
        return np.full(len(rows), NOTHING, np.int64)
    retracts = is_retract(batch.column(KIND_NAME).to_numpy())
    return np.where((rows >= 0) & ~retracts[rows], rows, NOTHING)


def _interleave(old: pa.RecordBatch, new: pa.RecordBatch, before: Indices, after: Indices) -> pa.RecordBatch:
    """Return, for each key, its row of `old`, then that of `new`, where there is one."""
    had, has = before >= 0, after >= 0
    parts = [old.take(pa.array(before[had])), new.take(pa.array(after[has]))]
    if not parts[0].num_rows:
        return parts[1]
    both = pa.concat_batches(parts)
    places = np.full((len(before), 2), NOTHING, np.int64)
    places[had, 0] = np.arange(had.sum())
    places[has, 1] = parts[0].num_rows + np.arange(has.sum())
    flat = places.ravel()
    return both.take(pa.array(flat[flat >= 0]))
