"""This module computes the result that a key must have: its sequence number and row kind by the rules of the
merge engine. Pure.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.metadata.options import MergeEngine
from lakecore.metadata.row_kind import RowKind
from lakecore.verify.rules.kinds import retracting
from lakecore.verify.rules.merge_rules import MergeRules
from lakecore.verify.rules.order import Bools

__all__ = ["ExpectedResults", "expect_results"]

_FOLDED, _IGNORED, _EXPIRED = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedResults:
    """These are the expected results, which have one value per key of the window.

    `numbers` and `kinds` are those of the result. `either` tells that its kind depends on values: it is an
    insert or a delete. `no_rows` tells that no row of the key counts, so it need not have a result; `nothing`
    that it must not have one. `may_vanish` tells that its result retracts, and need not be kept where no
    older row of the key exists.
    """

    numbers: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int8]
    either: Bools
    no_rows: Bools
    nothing: Bools
    may_vanish: Bools

    def allows(self, groups: npt.NDArray[np.int64], kinds: Any) -> Bools:
        """Return whether results of the keys `groups` may have `kinds`."""
        free = self.either[groups] & ((kinds == RowKind.INSERT) | (kinds == RowKind.DELETE))
        return np.asarray(free | (kinds == self.kinds[groups]))


def expect_results(
    rules: MergeRules, starts: Any, fates: Any, kinds: pa.Array, numbers: pa.Array
) -> ExpectedResults:
    """Return the expected results. `starts` is the first row of each key. It raises nothing: what is
    impossible is left to the comparison.
    """
    kind, number = kinds.to_numpy(), numbers.to_numpy()
    count = len(starts)
    key = np.repeat(np.arange(count), np.diff(np.append(starts, len(kind))))
    folded = np.flatnonzero(fates == _FOLDED)
    rows = np.bincount(key[folded], minlength=count)
    row_counts = np.bincount(key[fates != _EXPIRED], minlength=count)
    winner = _winners(rules, folded, key[folded], count)
    no_rows = rows == 0
    out_kinds = kind[winner].astype(np.int8)
    out_numbers = number[winner].astype(np.int64)
    either = np.zeros(count, bool)
    nothing = no_rows.copy()
    if rules.engine in (MergeEngine.AGGREGATION, MergeEngine.PARTIAL_UPDATE):
        merged = ~((row_counts == 1) & rules.single_rows_pass) & ~no_rows
        deleted = (out_kinds == RowKind.DELETE) & rules.remove_on_delete
        if rules.engine is MergeEngine.PARTIAL_UPDATE:
            inserts = np.bincount(key[folded[~retracting(kind[folded])]], minlength=count)
            deleted |= inserts == 0
            either = merged & ~deleted & (out_kinds == RowKind.DELETE) & bool(rules.remove_by)
            _expect_ignored(fates, key, (out_numbers, out_kinds, nothing))
        out_kinds[merged] = np.where(deleted, RowKind.DELETE, RowKind.INSERT)[merged]
    return ExpectedResults(
        numbers=out_numbers,
        kinds=out_kinds,
        either=either,
        no_rows=no_rows,
        nothing=nothing,
        may_vanish=retracting(out_kinds) | either,
    )


def _winners(rules: MergeRules, folded: Any, key: Any, count: int) -> Any:
    """Return the row of each key whose sequence number and kind count: the first one or the last one
    folded.
    """
    winner = np.zeros(count, np.int64)
    if rules.engine is MergeEngine.FIRST_ROW:
        winner[key[::-1]] = folded[::-1]
    else:
        winner[key] = folded
    return winner


def _expect_ignored(fates: Any, key: Any, out: tuple[Any, Any, Any]) -> None:
    """Expect that a partial update of ignored retracts alone may leave a delete of number 0 (rule of the
    format).
    """
    numbers, kinds, nothing = out
    ignored = np.zeros(len(nothing), bool)
    ignored[key[fates == _IGNORED]] = True
    only = nothing & ignored
    numbers[only], kinds[only], nothing[only] = 0, RowKind.DELETE, False
