"""This module computes the values of results on a second path: rows of all keys are applied one after
another, in numpy. Pure.

Round r applies the r-th row of every key that has one, so the rules are those of a single key, written down
once more. Recomputed: deduplicate and first-row (every column), partial update (also with sequence groups),
and the aggregate functions of `column_states` and `list_states`. Columns of other functions (sketches and
bitmaps) are left out of the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.metadata.options import MergeEngine
from lakecore.metadata.row_kind import KIND_NAME, RowKind
from lakecore.verify.recompute.column_states import NotRecomputableError, Places
from lakecore.verify.recompute.partial_update import Round, update_of
from lakecore.verify.recompute.value_states import state_of
from lakecore.verify.rules.kinds import retracting
from lakecore.verify.rules.merge_rules import MergeRules

__all__ = ["recompute"]

_FOLDED, _IGNORED, _EXPIRED = 0, 1, 2


def recompute(
    rules: MergeRules, window: pa.RecordBatch, starts: Any, fates: Any, groups: Places, names: Sequence[str]
) -> dict[str, pa.Array]:
    """Return columns `names` of the results of keys `groups`, as far as they can be computed.

    `starts`: the first row of each key. Memory: a few words a row of the window and column.
    """
    key = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, window.num_rows)))
    if rules.engine in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW):
        rows = _winners(rules, key, fates, len(starts))[groups]
        return {name: window.column(name).take(pa.array(rows)) for name in names}
    alone, single = _single_rows(rules, key, fates, len(starts))
    counts = (fates == _FOLDED) | ((fates == _IGNORED) & (rules.engine is MergeEngine.PARTIAL_UPDATE))
    applied = np.flatnonzero(counts & ~alone[key])
    rounds = list(_rounds(window, key[applied], applied, fates, len(starts)))
    fold = (
        _Aggregation(rules) if rules.engine is MergeEngine.AGGREGATION else update_of(rules, window, rounds)
    )
    results = {}
    for name in names:
        column = window.column(name)
        with suppress(NotRecomputableError):
            values = fold.column(name, column, rounds, len(starts))
            results[name] = _results(values, column, alone, single, groups)
    return results


def _winners(rules: MergeRules, key: Places, fates: Any, count: int) -> Places:
    folded = np.flatnonzero(fates == _FOLDED)
    winner = np.zeros(count, np.int64)
    if rules.engine is MergeEngine.FIRST_ROW:
        folded = folded[::-1]
    winner[key[folded]] = folded
    return winner


def _single_rows(rules: MergeRules, key: Places, fates: Any, count: int) -> tuple[Any, Places]:
    """Return which keys are left as they are, and their row."""
    singles = np.flatnonzero(fates != _EXPIRED)
    single = np.zeros(count, np.int64)
    single[key[singles]] = singles
    return (np.bincount(key[singles], minlength=count) == 1) & rules.single_rows_pass, single


def _rounds(window: pa.RecordBatch, key: Places, rows: Places, fates: Any, count: int) -> Iterator[Round]:
    """Yield the first row of each key, then the second ones, and so on. `rows` ascend."""
    kinds = window.column(KIND_NAME).to_numpy()
    sizes = np.bincount(key, minlength=count)
    begins = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    order = np.argsort(-sizes, kind="stable")
    falling = -sizes[order]
    for number in range(int(sizes.max(initial=0))):
        keys = order[: int(np.searchsorted(falling, -number, "left"))]
        rows_of_round = rows[begins[keys] + number]
        kind = kinds[rows_of_round]
        ignored = fates[rows_of_round] == _IGNORED
        yield Round(keys, rows_of_round, retracting(kind), kind == RowKind.DELETE, ignored)


class _Aggregation:
    """The merge engine aggregation, which applies a function to every column."""

    def __init__(self, rules: MergeRules) -> None:
        self._rules = rules

    def column(self, name: str, column: pa.Array, rounds: Sequence[Round], count: int) -> pa.Array:
        state = state_of(self._rules.columns[name], column, count)
        for now in rounds:
            removed = now.deletes & self._rules.remove_on_delete
            now.apply(state.set, removed)
            now.apply(state.add, ~now.retracts)
            now.apply(state.retract, now.retracts & ~removed)
        return state.values()


def _results(values: pa.Array, column: pa.Array, alone: Any, single: Places, groups: Places) -> pa.Array:
    """Return the values of `groups`; for keys left as they are, the value of their row."""
    values_of_groups = values.take(pa.array(groups))
    lone = alone[groups]
    if not lone.any():
        return values_of_groups
    single_values = column.take(pa.array(single[groups])).cast(values_of_groups.type)
    rows = np.where(lone, np.arange(len(groups)) + len(groups), np.arange(len(groups)))
    return pa.concat_arrays([values_of_groups, single_values]).take(pa.array(rows))
