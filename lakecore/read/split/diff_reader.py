"""This module reads the difference of two states of a bucket, compared key by key: new, changed and removed
rows.

Rule of the format: a row counts as changed when its bytes differ in any column, selected or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakecore.errors import UnsupportedError
from lakecore.merge.groups import Groups
from lakecore.merge.passes import Scratch
from lakecore.merge.row_order import Bools, Indices
from lakecore.merge.row_sorter import RowSorter, keyed
from lakecore.merge.sorted_merge import MergeSpec, group_rows
from lakecore.merge.windows import windows
from lakecore.metadata.options import PK_CLUSTERING_OVERRIDE
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME, RowKind, is_retract
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Predicate, restricted
from lakecore.read.context import ReadContext
from lakecore.read.split.split_reader import ReadRequest, read_split
from lakecore.row.binary_batch import encode_batch
from lakecore.row.sort_rule import OrderStrategy, SortRule
from lakecore.scan.change_scanner import DiffSplit
from lakecore.scan.split import Split
from lakecore.types.datatypes import RowType

__all__ = ["read_difference"]

_ROWS = 1 << 14
_NUMBER = "_NUMBER_OF_ROW"


def read_difference(
    ctx: ReadContext,
    split: DiffSplit,
    columns: Sequence[str],
    predicate: Predicate | None = None,
    *,
    deletes: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of the later state that are new or changed: `columns` and `_VALUE_KIND`.

    With `deletes` removed rows are included as deletes, with their last values, and so are new retracting
    rows. Other rows have the kind of the row that won the merge. Memory and errors are those of two
    `read_split`; files that are not in key order are sorted, in buffers that spill to local disk. Raises
    UnsupportedError where level 0 would have to be merged with such files.
    """
    keys = ctx.schema.trimmed_primary_keys
    on_keys = restricted(predicate, ctx.schema.primary_keys)
    sides = [
        _side(ctx, part, number, on_keys, retracts=deletes, numbered=SEQUENCE_NAME in columns)
        for number, part in enumerate((split.before, split.after))
    ]
    spec = MergeSpec(key_columns=keys)
    for parts in windows(sides, keys):
        groups = group_rows(parts, spec)
        retracts = is_retract(groups.batch.column(KIND_NAME).to_numpy()[groups.rows])
        changed = _changed_rows(groups, retracts, ctx.schema.row_type)
        is_removed = np.zeros(len(changed), bool)
        if deletes:
            alone = groups.starts[np.diff(groups.starts, append=len(changed)) == 1]
            is_removed[alone] = (groups.run_of_rows[alone] == 0) & ~retracts[alone]
        rows = groups.batch.take(pa.array(groups.rows[changed | is_removed]))
        rows = _as_deletes(rows, is_removed[changed | is_removed])
        filtered = rows if predicate is None else rows.filter(mask(predicate, rows))
        if filtered.num_rows:
            names = [*columns, KIND_NAME]
            numbered = filtered.select([_NUMBER if name == SEQUENCE_NAME else name for name in names])
            yield numbered.rename_columns(names)


def _side(
    ctx: ReadContext,
    split: Split | None,
    number: int,
    on_keys: Predicate | None,
    *,
    retracts: bool,
    numbered: bool,
) -> Iterator[pa.RecordBatch]:
    """Read the merged rows of one state in key order, all columns; `number` orders the two states of a key.

    With `numbered` each row has the sequence number that it was written with.
    """
    if split is None:
        return
    whole = replace(split, raw_convertible=False)
    names = (*ctx.schema.row_type.names, *([SEQUENCE_NAME] if numbered else []))
    rows = read_split(ctx, whole, ReadRequest(names, on_keys, kinds=True, retracts=retracts))
    for batch in _by_key(ctx, whole, rows, names) if ctx.options.pk_clustering_override else rows:
        if numbered:
            batch = batch.rename_columns([_NUMBER if n == SEQUENCE_NAME else n for n in batch.schema.names])
        for start in range(0, batch.num_rows, _ROWS):
            part = batch.slice(start, _ROWS)
            order = pa.repeat(pa.scalar(number, pa.int64()), part.num_rows)
            yield part.append_column(pa.field(SEQUENCE_NAME, pa.int64(), nullable=False), order)


def _by_key(
    ctx: ReadContext, split: Split, rows: Iterator[pa.RecordBatch], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Sort the rows of files in another order, of which no two share a key, by key; columns `names`."""
    if any(file.level == 0 for file in split.files):
        raise UnsupportedError(
            f"{ctx.paths.table_path}: {PK_CLUSTERING_OVERRIDE.key}=true: this release does not merge level 0 "
            "with files that are not sorted by key; compact the table, or read without "
            "deletion-vectors.merge-on-read"
        )
    rule = SortRule(OrderStrategy.ORDER, ctx.schema.trimmed_primary_keys)
    with Scratch() as scratch:
        sorter = RowSorter(scratch)
        for batch in rows:
            sorter.add(keyed(batch, rule))
        for batch in sorter.sorted():
            yield batch.select([*names, KIND_NAME])


def _changed_rows(groups: Groups, retracts: Bools, row_type: RowType) -> Bools:
    """Mark the rows, in merge order, that are of the later state and differ from the earlier one."""
    rows, starts = groups.rows, groups.starts
    changed = np.asarray(groups.run_of_rows == 1)
    before = starts[np.diff(starts, append=len(rows)) > 1]
    if len(before):
        same = _same_rows(groups.batch, rows[before], rows[before + 1], row_type)
        same &= retracts[before] == retracts[before + 1]
        changed[(before + 1)[same]] = False
    return changed


def _same_rows(batch: pa.RecordBatch, left: Indices, right: Indices, row_type: RowType) -> Bools:
    """Compare the rows at `left` and `right` pair by pair."""
    columns = [batch.column(name) for name in row_type.names]
    encoded = [
        encode_batch([column.take(pa.array(side)) for column in columns], row_type) for side in (left, right)
    ]
    lengths = [np.diff(side.starts) for side in encoded]
    same = np.asarray(lengths[0] == lengths[1])
    members = [_words(side.starts[:-1][same], lengths[0][same]) for side in encoded]
    if len(members[0]):
        equal = encoded[0].words[members[0]] == encoded[1].words[members[1]]
        firsts = np.cumsum(lengths[0][same]) - lengths[0][same]
        same[np.flatnonzero(same)] = np.logical_and.reduceat(equal, firsts)
    return same


def _words(starts: Indices, lengths: Indices) -> Indices:
    """Return the positions of all words of the rows that begin at `starts`."""
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.asarray(np.repeat(starts, lengths) + within)


def _as_deletes(batch: pa.RecordBatch, is_removed: Bools) -> pa.RecordBatch:
    if not is_removed.any():
        return batch
    at = batch.schema.get_field_index(KIND_NAME)
    kinds = np.where(is_removed, np.int8(RowKind.DELETE), batch.column(KIND_NAME).to_numpy()).astype(np.int8)
    return batch.set_column(at, batch.schema.field(at), pa.array(kinds))
