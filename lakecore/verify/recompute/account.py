"""This module has the account of a merge that does not conserve rows: many rows of a key become a new one.
It does no IO.

Merge engines first-row, partial-update and aggregation, and merges that look rows up. Such a merge shows,
window by window, all its rows in merge order and one result a key. The certifier finds the keys' borders and
what every result must be by itself: sequence number and row kind always, values in the full mode
(`recompute`); and which lines of the change stream are due (`expected_changes`). What it saw is bound to
bytes later: rows that came from the inputs must add up to the inputs read apart, rows looked up to what lies
at their positions, results and change lines to the outputs read back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.metadata.options import MergeEngine
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME
from lakecore.verify.digest.array_hash import hash_unordered
from lakecore.verify.digest.digest import ZERO, Tally, column_constant, hash_rows, tally
from lakecore.verify.digest.merge_order import check_merge_order
from lakecore.verify.digest.rows import covered_columns
from lakecore.verify.digest.shape import ProofMode, RowShape
from lakecore.verify.recompute.evidence import Fate, FoldedWindow, MergeEvidence, join_folds
from lakecore.verify.recompute.expected import ExpectedResults, expect_results
from lakecore.verify.recompute.expected_changes import (
    ChangeLines,
    KeyRows,
    certainly_same,
    expect_changes,
    same_where_known,
)
from lakecore.verify.recompute.values import recompute
from lakecore.verify.rules.expiry import is_expired
from lakecore.verify.rules.kinds import retracting
from lakecore.verify.rules.merge_rules import ChangeSource, MergeRules
from lakecore.verify.rules.order import Bools, KeyValues, key_at

__all__ = ["MergeCertifier"]


@dataclass(frozen=True, slots=True)
class _WindowView:
    """A window in parts, which are covered columns of its rows, the first row of each key, and the fates of
    rows.
    """

    window: FoldedWindow
    columns: list[pa.Array]
    keys: list[pa.Array]
    starts: npt.NDArray[np.int64]
    fates: npt.NDArray[np.int8]

    @property
    def folded(self) -> Bools:
        return np.asarray(self.fates == Fate.FOLDED)

    @property
    def outside(self) -> Bools:
        if self.window.outside is None:
            return np.zeros(len(self.fates), bool)
        return self.window.outside

    @property
    def levels(self) -> npt.NDArray[np.int64]:
        """Return the levels of the rows. Raises ValueError if the merge did not record them."""
        if self.window.levels is None:
            raise ValueError("levels of rows are needed where levels matter")
        return np.asarray(self.window.levels).astype(np.int64)

    def any_of_key(self, rows: Bools) -> Bools:
        """Return the keys with one of `rows`."""
        return np.asarray(np.logical_or.reduceat(rows, self.starts))

    def key_of(self, place: int) -> KeyValues:
        return key_at(self.keys, int(self.starts[place]))


class MergeCertifier:
    """A certifier of one merge, which checks its windows in order; sections follow each other in key order.

    `may_drop`: results that retract may be left out (no older row of the key exists outside the pick).
    `now_ms`: the time of record-level expiry, needed where rows expire.
    """

    def __init__(
        self, unit: str, shape: RowShape, rules: MergeRules, *, may_drop: bool, now_ms: int = 0
    ) -> None:
        self._unit = unit
        self._shape = shape
        self._rules = rules
        self._may_drop = may_drop
        self._now_ms = now_ms
        self._evidence = MergeEvidence()

    @property
    def evidence(self) -> MergeEvidence:
        """Return the sum of the windows so far."""
        return self._evidence

    def expired(self, rows: pa.RecordBatch, *, outside: bool = False) -> None:
        """Add rows that expired before the merge, in any order; their columns are as in `FoldedWindow.rows`.

        `outside`: they were looked up.
        """
        if rows.num_rows:
            self._check_expired(rows, np.ones(rows.num_rows, bool))
            expired_tally = tally(covered_columns(rows, self._shape), self._shape.field_ids)
            evidence = self._evidence
            beyond = evidence.outside + expired_tally if outside else evidence.outside
            self._evidence = replace(evidence, expired=evidence.expired + expired_tally, outside=beyond)

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
        view = _WindowView(window, columns, keys, starts, _fates(window))
        self._check_fates(view)
        numbers, kinds = window.rows.column(SEQUENCE_NAME), window.rows.column(KIND_NAME)
        self._check_groups(view, expect_results(self._rules, starts, view.fates, kinds, numbers))
        results, names = self._results(view)
        part = MergeEvidence(
            **self._tally_fates(view),
            results=tally(results, self._shape.field_ids) if len(window.groups) else ZERO,
            changes=self._tally_changes(view, results),
            key_hashes=self._lookup_hashes(view),
            keys=len(starts),
            vanished=len(starts) - len(window.groups),
            ties=ties,
            not_recomputed=names,
            first_key=key_at(keys, 0),
            last_key=key_at(keys, -1),
        )
        self._evidence = join_folds(self._unit, (self._evidence, part))

    @property
    def _sequence(self) -> list[str]:
        return [field.name for field in self._shape.sequence]

    def _check_fates(self, view: _WindowView) -> None:
        fates = view.fates
        ignored = fates == Fate.IGNORED
        if ignored.any():
            kinds = view.window.rows.column(KIND_NAME).to_numpy()
            if not self._rules.ignore_retracts or (ignored & ~retracting(kinds)).any():
                self._refuse(
                    "a row was ignored although it is no retract, or although the table does "
                    "not ignore retracts"
                )
            if self._rules.single_rows_pass and (ignored & _alone(view)).any():
                self._refuse("the only row of a key was ignored")
        self._check_expired(view.window.rows, fates == Fate.EXPIRED)
        if (fates == Fate.SUPERSEDED).any():
            self._check_superseded(view)
        if view.window.outside is not None and (view.outside & ~(view.folded | ignored)).any():
            self._refuse("a row was looked up, but no result uses it")

    def _check_expired(self, rows: pa.RecordBatch, expired: Bools) -> None:
        if not expired.any():
            return
        rules = self._rules
        if rules.expire_column is None:
            self._refuse("rows expired although the table has no record-level expiry")
        times = rows.column(rules.expire_column).filter(pa.array(expired))
        if not is_expired(times, self._now_ms, rules.expire_seconds).all():
            self._refuse(f"a row expired before its time ({rules.expire_column})")

    def _check_superseded(self, view: _WindowView) -> None:
        """Check superseded rows: each must be above level 0, and a row of its key that counts must be on a
        lower level above 0.

        A retract that the table ignores counts too: it stands for its level, and adds nothing to the result.
        """
        levels, superseded = view.levels, view.fates == Fate.SUPERSEDED
        counts = view.folded | (view.fates == Fate.IGNORED)
        high = np.where((levels > 0) & counts, levels, np.iinfo(np.int64).max)
        lowest = np.repeat(np.minimum.reduceat(high, view.starts), _sizes(view))
        if (superseded & (lowest >= levels)).any():
            self._refuse("a row was superseded although no row of its key is on a lower level")

    def _check_groups(self, view: _WindowView, expected: ExpectedResults) -> None:
        """Check that results are those of their keys, and that keys without a result may have none."""
        window, groups = view.window, view.window.groups
        if len(groups) != window.results.num_rows:
            raise ValueError("every result needs the place of its key")
        if len(groups) and (groups[0] < 0 or groups[-1] >= len(view.starts) or (np.diff(groups) <= 0).any()):
            self._refuse("a key has two results, or the results are out of order")
        kinds = window.results.column(KIND_NAME).to_numpy()
        numbers = window.results.column(SEQUENCE_NAME).to_numpy()
        has_older = self._has_older_row(view)
        for wrong, problem in (
            (has_older[groups], "has a result although a higher level has its first row"),
            (expected.nothing[groups], "has a result although all of its rows are left out"),
            (
                numbers != expected.numbers[groups],
                "has a result with another sequence number than its rows give",
            ),
            (~expected.allows(groups, kinds), "has a result with another row kind than its rows give"),
        ):
            if wrong.any():
                self._refuse(f"key {view.key_of(int(groups[wrong.argmax()]))} {problem}")
        absent = np.ones(len(view.starts), bool)
        absent[groups] = False
        may = expected.no_rows | has_older
        if self._may_drop:
            may |= expected.may_vanish
        if (absent & ~may).any():
            place = int((absent & ~may).argmax())
            self._refuse(f"key {view.key_of(place)} has no result although it must have one")

    def _has_older_row(self, view: _WindowView) -> Bools:
        """Merge engine first-row: keys whose first row lies outside the pick."""
        if self._rules.engine is not MergeEngine.FIRST_ROW:
            return np.zeros(len(view.starts), bool)
        return view.any_of_key(view.outside)

    def _tally_fates(self, view: _WindowView) -> dict[str, Any]:
        tallies = {fate.name.lower(): self._tally(view.columns, view.fates == fate) for fate in Fate}
        return {**tallies, "outside": self._tally(view.columns, view.outside)}

    def _tally(self, columns: list[pa.Array], which: Bools) -> Tally:
        if which.all():
            return tally(columns, self._shape.field_ids)
        return self._tally_rows(columns, np.flatnonzero(which))

    def _tally_rows(self, columns: list[pa.Array], rows: Any, kinds: Any = None) -> Tally:
        """Return the tally of rows. `kinds` are row kinds in place of the rows' own."""
        if not len(rows):
            return ZERO
        picked = [column.take(pa.array(rows)) for column in columns]
        if kinds is not None:
            picked[-1] = pa.array(kinds)
        return tally(picked, self._shape.field_ids)

    def _results(self, view: _WindowView) -> tuple[list[pa.Array], frozenset[str]]:
        """Return what the outputs must have: keys from the rows, values recomputed (full mode), the rest as
        the merge recorded it.
        """
        window = view.window
        first = pa.array(view.starts[window.groups])
        keys = [column.take(first) for column in view.keys]
        names = [field.name for field in self._shape.values]
        values = dict(zip(names, map(window.results.column, names), strict=True))
        compared_names: frozenset[str] = frozenset()
        if self._shape.mode is ProofMode.FULL and len(window.groups):
            results = recompute(self._rules, window.rows, view.starts, view.fates, window.groups, names)
            compared_names = frozenset(names) - results.keys()
            self._check_unordered(view, results)
            values |= {name: array for name, array in results.items() if name not in self._rules.unordered}
        system = [window.results.column(SEQUENCE_NAME), window.results.column(KIND_NAME)]
        return [*keys, *(values[name] for name in names), *system], compared_names

    def _check_unordered(self, view: _WindowView, arrays: Mapping[str, pa.Array]) -> None:
        """Check arrays in the order of a hash map: the merge's order counts, but they must have the right
        elements.
        """
        constant = column_constant(0)
        for name in self._rules.unordered & arrays.keys():
            hashes = hash_unordered(arrays[name], constant)
            wrong = hashes != hash_unordered(view.window.results.column(name), constant)
            if wrong.any():
                key = view.key_of(int(view.window.groups[wrong.argmax()]))
                self._refuse(f"key {key}: column {name} does not follow from its rows")

    def _tally_changes(self, view: _WindowView, results: list[pa.Array]) -> Tally:
        """Return what the changelog must have for this window."""
        if self._rules.changes is ChangeSource.NONE:
            return ZERO
        window = view.window
        rows = KeyRows(
            starts=view.starts,
            counted=view.fates != Fate.EXPIRED,
            levels=view.levels,
            groups=window.groups,
            kinds=window.rows.column(KIND_NAME).to_numpy(),
            result_kinds=window.results.column(KIND_NAME).to_numpy(),
        )
        none = np.empty(0, np.int64)
        unchanged = none if window.unchanged is None else window.unchanged
        if len(unchanged) and not self._rules.compared:
            self._refuse("changes are left out of the changelog although the table records every change")
        if self._rules.compared and self._shape.mode is ProofMode.FULL:
            self._check_unchanged(view, expect_changes(self._rules, rows, none), unchanged)
        due = expect_changes(self._rules, rows, unchanged)
        before = self._tally_rows(view.columns, due.before, due.before_kinds)
        return before + self._tally_rows(results, due.after, due.after_kinds)

    def _check_unchanged(self, view: _WindowView, due: ChangeLines, unchanged: npt.NDArray[np.int64]) -> None:
        """Check that keys left out of the changelog kept their values, and that the others did not."""
        names = self._rules.compared
        keys, before, after = due.pairs
        if not len(keys):
            return
        left_out = np.isin(keys, unchanged)
        batch, results = view.window.rows, view.window.results
        old = [batch.column(name).take(pa.array(before)) for name in names]
        new = [results.column(name).take(pa.array(after)) for name in names]
        for wrong, problem in (
            (left_out & ~same_where_known(old, new), "changed, but its change is not in the changelog"),
            (~left_out & certainly_same(old, new), "did not change, but the changelog has a change of it"),
        ):
            if wrong.any():
                self._refuse(f"key {view.key_of(int(keys[wrong.argmax()]))} {problem}")

    def _lookup_hashes(self, view: _WindowView) -> bytes:
        """Return, in full mode, the keys with a row of level 0 and no input row above it, whose old row is
        looked up.
        """
        if (
            self._shape.mode is not ProofMode.FULL
            or not self._rules.needs_lookup
            or view.window.levels is None
        ):
            return b""
        inside = view.any_of_key((view.levels > 0) & ~view.outside)
        places = np.flatnonzero(view.any_of_key(view.levels == 0) & ~inside)
        first = pa.array(view.starts[places])
        ids = self._shape.field_ids[: len(view.keys)]
        if not len(places):
            return b""
        return hash_rows([column.take(first) for column in view.keys], ids).tobytes()

    def _refuse(self, problem: str) -> NoReturn:
        raise ProofError(self._unit, problem)


def _fates(window: FoldedWindow) -> npt.NDArray[np.int8]:
    if window.fates is None:
        return np.zeros(window.rows.num_rows, np.int8)
    return window.fates


def _sizes(view: _WindowView) -> Any:
    return np.diff(np.append(view.starts, len(view.fates)))


def _alone(view: _WindowView) -> Bools:
    """Return whether a row is the only one of its key that did not expire."""
    counted = np.add.reduceat((view.fates != Fate.EXPIRED).astype(np.int64), view.starts)
    return np.asarray(np.repeat(counted == 1, _sizes(view)))
