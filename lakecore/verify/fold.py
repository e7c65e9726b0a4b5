"""The account of a merge that does not conserve rows: many rows of a key become a new one. No IO.

Merge engines first-row, partial-update and aggregation, and merges that look rows up. Such a merge shows,
window by window, all its rows in merge order and one result a key. The certifier finds the keys' borders and
what every result must be by itself: sequence number and row kind always, values in the full mode
(`recompute`). What it saw is bound to bytes later: rows that came from the inputs must add up to the inputs
read apart, results to the outputs read back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.errors import ProofError
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME, retracting
from lakecore.verify.digest import ZERO, Tally, tally
from lakecore.verify.expected import Expected, expect_results
from lakecore.verify.expiry import is_expired
from lakecore.verify.fold_rules import FoldRules
from lakecore.verify.merge_order import check_merge_order
from lakecore.verify.order import Bools, KeyValues, key_at
from lakecore.verify.recompute import recompute
from lakecore.verify.rows import covered_columns
from lakecore.verify.shape import ProofMode, RowShape

__all__ = ["Fate", "FoldCertifier", "FoldEvidence", "FoldedWindow", "join_folds", "join_passes"]


class Fate(IntEnum):
    """What became of a row of a merge.

    FOLDED: it has part in its key's result. IGNORED: a retract that option `ignore-delete` leaves out.
    EXPIRED: older than `record-level.expire-time`. SUPERSEDED: the same key has a row on a lower level above
    0, which stands for all levels from its own on (lookup merges).
    """

    FOLDED = 0
    IGNORED = 1
    EXPIRED = 2
    SUPERSEDED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedWindow:
    """All rows of a window in merge order, and the results of its keys.

    Columns of both batches are found by name, in the types of the table: key columns (`_KEY_` or values),
    sequence fields, the column of record-level expiry, `_SEQUENCE_NUMBER`, `_VALUE_KIND`; in the full mode
    all columns. `fates`: a `Fate` a row, None for all folded. `levels`: the level of each row, needed with
    SUPERSEDED. `outside`: rows that were looked up and are in no input of the pick.
    `groups`: for each result, the place of its key among the keys of the window, strictly increasing.
    """

    rows: pa.RecordBatch
    results: pa.RecordBatch
    groups: npt.NDArray[np.int64]
    fates: npt.NDArray[np.int8] | None = None
    levels: npt.NDArray[Any] | None = None
    outside: Bools | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldEvidence:
    """What a certified merge says it did. Pickles; `join_folds` adds up units in key order.

    `folded`, `ignored`, `expired`, `superseded`: rows by their fate. `outside`: how many of these were looked
    up. `results`: what the outputs must hold. `keys`: keys met; `vanished`: those without a result. `ties`:
    neighbours equal in key and order. `taken`: columns whose values were taken from the merge, not recomputed
    (full mode). Keys are None without rows.
    """

    folded: Tally = ZERO
    ignored: Tally = ZERO
    expired: Tally = ZERO
    superseded: Tally = ZERO
    outside: Tally = ZERO
    results: Tally = ZERO
    keys: int = 0
    vanished: int = 0
    ties: int = 0
    taken: frozenset[str] = frozenset()
    first_key: KeyValues | None = None
    last_key: KeyValues | None = None

    def __add__(self, other: FoldEvidence) -> FoldEvidence:
        """Counts and digests of both, wherever their keys are."""
        return FoldEvidence(
            folded=self.folded + other.folded,
            ignored=self.ignored + other.ignored,
            expired=self.expired + other.expired,
            superseded=self.superseded + other.superseded,
            outside=self.outside + other.outside,
            results=self.results + other.results,
            keys=self.keys + other.keys,
            vanished=self.vanished + other.vanished,
            ties=self.ties + other.ties,
            taken=self.taken | other.taken,
        )

    @property
    def inputs(self) -> Tally:
        """What the inputs of the pick must add up to."""
        return self.folded + self.ignored + self.expired + self.superseded - self.outside


def join_folds(unit: str, parts: Iterable[FoldEvidence]) -> FoldEvidence:
    """The evidence of parts that follow each other in key order. Raises ProofError when they do not."""
    whole = FoldEvidence()
    for part in parts:
        if whole.last_key is not None and part.first_key is not None and part.first_key <= whole.last_key:
            raise ProofError(unit, f"rows from key {part.first_key} follow key {whole.last_key}")
        whole = replace(
            whole + part,
            first_key=part.first_key if whole.first_key is None else whole.first_key,
            last_key=whole.last_key if part.last_key is None else part.last_key,
        )
    return whole


def join_passes(inner: Iterable[FoldEvidence], last: FoldEvidence) -> FoldEvidence:
    """The account of a merge in passes: results of an earlier pass are rows of a later one.

    Passes that only order rows need no account at all.
    """
    for part in inner:
        last = replace(
            last,
            folded=last.folded + part.folded - part.results,
            ignored=last.ignored + part.ignored,
            expired=last.expired + part.expired,
            superseded=last.superseded + part.superseded,
            outside=last.outside + part.outside,
            ties=last.ties + part.ties,
            taken=last.taken | part.taken,
        )
    return last


class FoldCertifier:
    """Checks the windows of one merge, in order; sections follow each other in key order.

    `may_drop`: results that retract may be left out (no older row of the key exists outside the pick).
    `now_ms`: the time of record-level expiry, needed where rows expire.
    """

    def __init__(
        self, unit: str, shape: RowShape, rules: FoldRules, *, may_drop: bool, now_ms: int = 0
    ) -> None:
        self._unit = unit
        self._shape = shape
        self._rules = rules
        self._may_drop = may_drop
        self._now_ms = now_ms
        self._evidence = FoldEvidence()

    @property
    def evidence(self) -> FoldEvidence:
        """What the windows so far add up to."""
        return self._evidence

    def expired(self, rows: pa.RecordBatch) -> None:
        """Rows that expired before the merge saw them, in any order; columns as in `FoldedWindow.rows`."""
        if rows.num_rows:
            self._check_expired(rows, np.ones(rows.num_rows, bool))
            gone = tally(covered_columns(rows, self._shape), self._shape.field_ids)
            self._evidence = replace(self._evidence, expired=self._evidence.expired + gone)

    def window(self, window: FoldedWindow) -> None:
        """Check one window. Raises ProofError naming the first key that is wrong.

        Cost: digests of its rows and results, 15-50 ns a row; the full mode recomputes every column, in as
        many numpy steps as the largest key has rows.
        """
        if not window.rows.num_rows:
            return
        columns = covered_columns(window.rows, self._shape)
        keys = columns[: len(self._shape.key)]
        order = [*map(window.rows.column, self._sequence), window.rows.column(SEQUENCE_NAME)]
        same, ties = check_merge_order(self._unit, keys, order, descending=self._shape.descending)
        starts = np.concatenate(([0], np.flatnonzero(~same) + 1))
        fates = _fates(window)
        self._check_fates(window, starts, fates)
        expected = expect_results(
            self._rules, starts, fates, window.rows.column(KIND_NAME), window.rows.column(SEQUENCE_NAME)
        )
        self._check_groups(window, expected, keys, starts)
        results, taken = self._tally_results(window, columns, starts, fates)
        part = FoldEvidence(
            **self._tally_fates(window, columns, fates),
            results=results,
            keys=len(starts),
            vanished=len(starts) - len(window.groups),
            ties=ties,
            taken=taken,
            first_key=key_at(keys, 0),
            last_key=key_at(keys, -1),
        )
        self._evidence = join_folds(self._unit, (self._evidence, part))

    @property
    def _sequence(self) -> list[str]:
        return [field.name for field in self._shape.sequence]

    def _check_fates(self, window: FoldedWindow, starts: Any, fates: Any) -> None:
        ignored = fates == Fate.IGNORED
        if ignored.any():
            kinds = window.rows.column(KIND_NAME).to_numpy()
            if not self._rules.ignore_retracts or (ignored & ~retracting(kinds)).any():
                self._refuse("a row was ignored that is no retract, or whose table does not ignore retracts")
            if self._rules.single_rows_pass and (ignored & _alone(starts, fates)).any():
                self._refuse("the only row of a key was ignored")
        self._check_expired(window.rows, fates == Fate.EXPIRED)
        superseded = fates == Fate.SUPERSEDED
        if superseded.any():
            self._check_superseded(window, starts, superseded)

    def _check_expired(self, rows: pa.RecordBatch, expired: Bools) -> None:
        if not expired.any():
            return
        rules = self._rules
        if rules.expire_column is None:
            self._refuse("rows expired although the table has no record-level expiry")
        times = rows.column(rules.expire_column).filter(pa.array(expired))
        if not is_expired(times, self._now_ms, rules.expire_seconds).all():
            self._refuse(f"a row expired before its time ({rules.expire_column})")

    def _check_superseded(self, window: FoldedWindow, starts: Any, superseded: Bools) -> None:
        """Each such row is above level 0, and a folded row of its key is on a lower level above 0."""
        if window.levels is None:
            self._refuse("rows were superseded by rows of unknown levels")
        levels = np.asarray(window.levels).astype(np.int64)
        high = np.where((levels > 0) & ~superseded, levels, np.iinfo(np.int64).max)
        lowest = np.repeat(np.minimum.reduceat(high, starts), _sizes(starts, len(levels)))
        if (superseded & (lowest >= levels)).any():
            self._refuse("a row was superseded although no row of its key is on a lower level")

    def _check_groups(
        self, window: FoldedWindow, expected: Expected, keys: list[pa.Array], starts: Any
    ) -> None:
        """Results are those of their keys, and keys without one may be without."""
        groups = window.groups
        if len(groups) != window.results.num_rows:
            raise ValueError("every result needs the place of its key")
        if len(groups) and (groups[0] < 0 or groups[-1] >= len(starts) or (np.diff(groups) <= 0).any()):
            self._refuse("a key has two results, or results are out of order")
        kinds = window.results.column(KIND_NAME).to_numpy()
        numbers = window.results.column(SEQUENCE_NAME).to_numpy()

        def at(place: int) -> KeyValues:
            return key_at(keys, int(starts[place]))

        for wrong, problem in (
            (expected.nothing[groups], "has a result although none of its rows counts"),
            (
                numbers != expected.numbers[groups],
                "has a result of another sequence number than its rows say",
            ),
            (~expected.allows(groups, kinds), "has a result of another kind than its rows say"),
        ):
            if wrong.any():
                self._refuse(f"key {at(int(groups[wrong.argmax()]))} {problem}")
        absent = np.ones(len(starts), bool)
        absent[groups] = False
        may = expected.may_vanish | expected.nothing if self._may_drop else expected.no_rows
        if (absent & ~may).any():
            self._refuse(f"key {at(int((absent & ~may).argmax()))} has no result although it must have one")

    def _tally_fates(self, window: FoldedWindow, columns: list[pa.Array], fates: Any) -> dict[str, Any]:
        found = {fate.name.lower(): self._tally(columns, fates == fate) for fate in Fate}
        return {**found, "outside": ZERO if window.outside is None else self._tally(columns, window.outside)}

    def _tally(self, columns: list[pa.Array], which: Bools) -> Tally:
        if which.all():
            return tally(columns, self._shape.field_ids)
        if not which.any():
            return ZERO
        picked = pa.array(np.flatnonzero(which))
        return tally([column.take(picked) for column in columns], self._shape.field_ids)

    def _tally_results(
        self, window: FoldedWindow, columns: list[pa.Array], starts: Any, fates: Any
    ) -> tuple[Tally, frozenset[str]]:
        """What the outputs must hold: keys by the rows, values recomputed (full mode), the rest as shown."""
        if not len(window.groups):
            return ZERO, frozenset()
        first = pa.array(starts[window.groups])
        keys = [column.take(first) for column in columns[: len(self._shape.key)]]
        names = [field.name for field in self._shape.values]
        values = dict(zip(names, map(window.results.column, names), strict=True))
        taken: frozenset[str] = frozenset()
        if self._shape.mode is ProofMode.FULL:
            found = recompute(self._rules, window.rows, starts, fates, window.groups, names)
            taken = frozenset(names) - found.keys()
            values |= found
        system = [window.results.column(SEQUENCE_NAME), window.results.column(KIND_NAME)]
        return tally([*keys, *(values[name] for name in names), *system], self._shape.field_ids), taken

    def _refuse(self, problem: str) -> NoReturn:
        raise ProofError(self._unit, problem)


def _fates(window: FoldedWindow) -> npt.NDArray[np.int8]:
    if window.fates is None:
        return np.zeros(window.rows.num_rows, np.int8)
    return window.fates


def _sizes(starts: Any, rows: int) -> Any:
    return np.diff(np.append(starts, rows))


def _alone(starts: Any, fates: Any) -> Bools:
    """Whether a row is the only one of its key that did not expire."""
    counted = np.add.reduceat((fates != Fate.EXPIRED).astype(np.int64), starts)
    return np.asarray(np.repeat(counted == 1, _sizes(starts, len(fates))))
