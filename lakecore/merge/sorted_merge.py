"""This module merges sorted runs as a stream: window by window, whole columns at a time.

The latest row of a key wins (merge engine deduplicate), or an `Engine` folds the rows of a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.merge.groups import Engine, FoldedGroups, Groups, fold
from lakecore.merge.key_columns import concat
from lakecore.merge.row_order import Bools, Indices, RowOrder, SequenceColumn, order_rows
from lakecore.merge.windows import Part, windows
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME, is_retract

__all__ = ["Evidence", "MergeEvidence", "MergeSpec", "MergedWindow", "group_rows", "merge_runs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpec:
    """These rules say how rows of one key become one row."""

    key_columns: tuple[str, ...]
    """These are the names of the key columns in key order, `_KEY_` or value columns alike."""
    sequence_columns: tuple[str, ...] = ()
    """These columns order rows of a key (nulls first), before `_SEQUENCE_NUMBER` and then the run."""
    descending: bool = False
    """It tells whether `sequence_columns` are descending; it applies to these only."""
    drop_retracts: bool = False
    """It tells whether a key whose latest row retracts leaves no row."""
    ignore_retracts: bool = False
    """It tells whether retract rows are ignored if a key has several rows (a single row passes unchanged:
    rule of the format). It must equal the engine's own rule.
    """
    columns: tuple[str, ...] | None = None
    """These are the columns of a window's batch; None means all columns of the input."""
    evidence: bool = False
    """It tells whether the data that a proof needs is returned too."""
    lost_rows: bool = False
    """It tells whether the evidence has all columns of the rows that are lost or dropped."""
    proof_columns: tuple[str, ...] = ()
    """These are further columns of the evidence of what an engine folds."""
    engine: Engine | None = None
    """The merge engine; None is merge engine deduplicate."""
    levels: tuple[int, ...] | None = None
    """The levels of the runs, in tables that look rows up: the row of a key on its lowest level above 0
    then stands for those of the levels above, which an engine must not fold again.
    """
    numbered: bool = True
    """It is False if all rows of a run have higher sequence numbers than those of the runs before it:
    batches then need no `_SEQUENCE_NUMBER`. It cannot be combined with `evidence`.
    """
    kinds: bool = True
    """It is False if no row retracts: batches then need no `_VALUE_KIND`, unless it is among `columns`. It
    cannot be combined with `evidence`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """It says what became of each input row of a window, in merge order (key, then sequence). A row that
    is neither lost nor dropped is in the batch.
    """

    keys: tuple[pa.Array, ...]
    sequence: tuple[pa.Array, ...]
    """These are the sequence columns, then `_SEQUENCE_NUMBER`."""
    kinds: Any
    lost: Bools
    """Another row of the key was preferred to these rows."""
    dropped: Bools
    """These retract rows were left out."""
    lost_rows: pa.RecordBatch | None = None
    """These are all columns of the rows lost or dropped, if requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeEvidence:
    """This is the account of an engine for one window. `rows` are all input rows in merge order, `results`
    those of the batch.

    Both have the key and sequence columns, those of `MergeSpec.proof_columns`, `_SEQUENCE_NUMBER` and
    `_VALUE_KIND`, or all columns (`MergeSpec.lost_rows`). `groups` tells, for each result, which key of the
    window it has. `ignored` are rows that did not count, because they retract.
    """

    rows: pa.RecordBatch
    results: pa.RecordBatch
    groups: Indices
    ignored: Bools


@dataclass(frozen=True, slots=True)
class MergedWindow:
    """These rows survive a window, in key order; `rows_in` counts what went in. The batch may be empty."""

    batch: pa.RecordBatch
    rows_in: int
    evidence: Evidence | MergeEvidence | None = None


def merge_runs(runs: Sequence[Iterator[pa.RecordBatch]], spec: MergeSpec) -> Iterator[MergedWindow]:
    """Merge runs given oldest first; windows come in key order and share no key.

    Batches need the key and sequence columns, `_SEQUENCE_NUMBER` and `_VALUE_KIND` (but see `MergeSpec`). It
    holds one batch per run, their window and its result: callers bound memory by the size of batches. Raises
    CorruptDataError for a run out of key order.
    """
    for parts in windows(runs, spec.key_columns):
        yield _merge(parts, spec) if spec.engine is None else _fold(parts, spec, spec.engine)


def group_rows(parts: Sequence[Part], spec: MergeSpec) -> Groups:
    """Return the rows of a window in merge order."""
    batch, order, last = _window(parts, spec)
    runs = tuple((part.run, part.batch.num_rows) for part in parts)
    return Groups(batch=batch, order=None if order is None else order.rows, last=last, runs=runs)


def _fold(parts: Sequence[Part], spec: MergeSpec, engine: Engine) -> MergedWindow:
    groups = group_rows(parts, spec)
    if spec.levels is not None:
        groups = groups.nearest(spec.levels)
    folded = fold(groups, engine, spec.columns)
    left_out = np.asarray(folded.kinds & 1, bool) if spec.drop_retracts else np.zeros(len(folded.kinds), bool)
    batch = folded.batch.filter(pa.array(~left_out)) if left_out.any() else folded.batch
    evidence = _folded_evidence(groups, folded, left_out, spec) if spec.evidence else None
    return MergedWindow(batch, groups.batch.num_rows, evidence)


def _folded_evidence(groups: Groups, folded: FoldedGroups, left_out: Bools, spec: MergeSpec) -> MergeEvidence:
    """Return the evidence of folded groups. It needs all columns in what was folded."""
    batch, rows = groups.batch, groups.rows
    system = (SEQUENCE_NAME, KIND_NAME)
    names = list(dict.fromkeys((*spec.key_columns, *spec.sequence_columns, *spec.proof_columns, *system)))
    lines, results = (
        (batch, folded.batch) if spec.lost_rows else (batch.select(names), folded.batch.select(names))
    )
    ordered_rows = lines if groups.order is None else lines.take(pa.array(rows))
    several = np.repeat(folded.several, np.diff(groups.starts, append=len(rows)))
    retracts = is_retract(ordered_rows.column(KIND_NAME).to_numpy())
    return MergeEvidence(
        rows=ordered_rows,
        results=results.filter(pa.array(~left_out)) if left_out.any() else results,
        groups=np.flatnonzero(folded.present)[~left_out],
        ignored=retracts & several & spec.ignore_retracts,
    )


def _merge(parts: Sequence[Part], spec: MergeSpec) -> MergedWindow:
    batch, order, last = _window(parts, spec)
    if not spec.kinds:
        return MergedWindow(_filtered_batch(batch, order, last, spec), batch.num_rows)
    kinds = batch.column(KIND_NAME).to_numpy()
    if order is not None:
        kinds = kinds[order.rows]
    lost, dropped = _verdicts(kinds, last, spec, alone=order is None)
    output = _filtered_batch(batch, order, ~(lost | dropped), spec)
    evidence = _evidence(batch, order, (kinds, lost, dropped), spec) if spec.evidence else None
    return MergedWindow(output, batch.num_rows, evidence)


def _window(parts: Sequence[Part], spec: MergeSpec) -> tuple[pa.RecordBatch, RowOrder | None, Bools]:
    """Return the rows of a window, their merge order (None: they have it already), and, in that order, which
    are the last of their key.
    """
    if len(parts) == 1:
        batch = parts[0].batch
        return batch, None, np.ones(batch.num_rows, bool)
    batch = pa.concat_batches([part.batch for part in parts])
    order = _order(parts, batch, spec)
    return batch, order, np.append(~order.same, True)


def _order(parts: Sequence[Part], batch: pa.RecordBatch, spec: MergeSpec) -> RowOrder:
    columns = zip(*(part.keys.columns for part in parts), strict=True)
    keys = [concat(list(pieces)) for pieces in columns]
    sequence = [SequenceColumn(batch.column(name), spec.descending) for name in spec.sequence_columns]
    if spec.numbered:
        sequence.append(SequenceColumn(batch.column(SEQUENCE_NAME)))
    return order_rows(keys, sequence)


def _verdicts(kinds: Any, last: Bools, spec: MergeSpec, *, alone: bool) -> tuple[Bools, Bools]:
    """Return (lost, dropped) of rows in merge order. `alone` tells that every key has a single row."""
    retracts = is_retract(kinds)
    dropped = np.zeros(len(kinds), bool)
    if not retracts.any():
        return ~last, dropped
    if spec.ignore_retracts and not alone:
        first = np.append(True, last[:-1])
        dropped |= retracts & ~(first & last)
        last = _last_unless(dropped, last)
    if spec.drop_retracts:
        dropped |= retracts & last
    return ~last & ~dropped, dropped


def _last_unless(ignored: Bools, last: Bools) -> Bools:
    """Return which rows are the last of their key when `ignored` rows do not count."""
    group = np.concatenate(([0], np.cumsum(last)[:-1]))
    counted = np.flatnonzero(~ignored)
    ends = np.append(group[counted][1:] != group[counted][:-1], True) if len(counted) else np.empty(0, bool)
    result = np.zeros(len(last), bool)
    result[counted[ends]] = True
    return result


def _filtered_batch(
    batch: pa.RecordBatch, order: RowOrder | None, keep: Bools, spec: MergeSpec
) -> pa.RecordBatch:
    columns = batch if spec.columns is None else batch.select(list(spec.columns))
    if order is None:
        return columns if keep.all() else columns.filter(pa.array(keep))
    return pc.take(columns, pa.array(order.rows[keep]), boundscheck=False)


def _evidence(
    batch: pa.RecordBatch, order: RowOrder | None, verdicts: tuple[Any, Bools, Bools], spec: MergeSpec
) -> Evidence:
    kinds, lost, dropped = verdicts
    removed = np.flatnonzero(lost | dropped)
    return Evidence(
        keys=tuple(_sorted_key(batch.column(name), order, i) for i, name in enumerate(spec.key_columns)),
        sequence=tuple(_sort(batch.column(name), order) for name in (*spec.sequence_columns, SEQUENCE_NAME)),
        kinds=kinds,
        lost=lost,
        dropped=dropped,
        lost_rows=batch.take(pa.array(removed if order is None else order.rows[removed]))
        if spec.lost_rows
        else None,
    )


def _sorted_key(column: pa.Array, order: RowOrder | None, number: int) -> pa.Array:
    """Return a key column in merge order; the one that was made for comparing keys, where that is the
    same.
    """
    if order is not None and pa.types.is_signed_integer(column.type):
        return pa.array(order.keys[number])
    return _sort(column, order)


def _sort(column: pa.Array, order: RowOrder | None) -> pa.Array:
    return column if order is None else column.take(pa.array(order.rows))
