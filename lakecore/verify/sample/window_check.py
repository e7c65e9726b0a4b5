"""This module compares a window of a merge with what its rows must become: results key by key, lines of
the changelog.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME
from lakecore.verify.digest.array_hash import hash_array, hash_unordered
from lakecore.verify.digest.digest import column_constant, hash_rows
from lakecore.verify.digest.shape import RowShape
from lakecore.verify.recompute.evidence import Fate
from lakecore.verify.recompute.expected_changes import (
    ChangeLines,
    KeyRows,
    certainly_same,
    expect_changes,
    same_where_known,
)
from lakecore.verify.recompute.values import recompute
from lakecore.verify.recompute.window_results import WindowKeys
from lakecore.verify.rules.merge_rules import MergeRules
from lakecore.verify.rules.order import KeyValues, key_at
from lakecore.verify.sample.window_read import key_hashes, key_names

__all__ = ["Results", "WindowCheck"]

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Results:
    """Rows of a window that were written, or must be. `groups`: the key of each; `names`: columns that
    count.
    """

    batch: pa.RecordBatch
    groups: npt.NDArray[np.int64]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WindowCheck:
    """It compares windows of one unit. `shape`: the wide one. `left_out`: columns that are not compared."""

    unit: str
    shape: RowShape
    rules: MergeRules
    may_drop: bool
    left_out: frozenset[str] = frozenset()

    def results(self, window: WindowKeys, written: pa.RecordBatch) -> Results:
        """Compare the results of a window and return them. Raises ProofError unless `written` are the results
        of the window's keys. The names are those of the columns that could be recomputed.
        """
        groups = self._groups(window, written)
        sure = ~window.tied[groups]
        expected = window.expected
        kinds, numbers = written.column(KIND_NAME).to_numpy(), written.column(SEQUENCE_NAME).to_numpy()
        self._all_right(window, groups, (numbers == expected.numbers[groups]) | ~sure, "the sequence number")
        self._all_right(window, groups, expected.allows(groups, kinds) | ~sure, "the row kind")
        results = self._folded_columns(window, groups)
        for name, values in results.items():
            same = self._hashes(name, values) == self._hashes(name, written.column(name))
            self._all_right(window, groups, same | ~sure, f"column {name}")
        return Results(written, groups, tuple(results))

    def moved(self, window: WindowKeys) -> Results:
        """Return the results of a file that moves, whose rows are announced."""
        groups = np.flatnonzero(~window.absent)
        results = self._folded_columns(window, groups)
        first = window.rows.batch.take(pa.array(window.starts[groups]))
        names = key_names(self.shape)
        columns = {name: first.column(name) for name in names} | results
        columns[SEQUENCE_NAME] = pa.array(window.expected.numbers[groups])
        columns[KIND_NAME] = pa.array(window.expected.kinds[groups])
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return Results(batch, groups, tuple(results))

    def changes(self, window: WindowKeys, results: Results, lines: pa.RecordBatch) -> None:
        """Raise ProofError unless `lines` of the changelog are those that the window's keys must have."""
        names = [
            name for name in (field.name for field in self.shape.values) if name in results.batch.schema.names
        ]
        names = [name for name in names if name not in self.left_out]
        hashes = key_hashes(lines, self.shape)
        firsts = key_hashes(window.rows.batch.take(pa.array(window.starts)), self.shape)
        due = self._due(window, results, firsts, hashes)
        tied = firsts[window.tied]
        expected = np.concatenate([
            self._line_hashes(window.rows.batch, due.before, due.before_kinds, names, tied),
            self._line_hashes(results.batch, due.after, due.after_kinds, names, tied),
        ])  # fmt: skip
        kinds = lines.column(KIND_NAME).to_numpy()
        line_hashes = self._line_hashes(lines, np.arange(lines.num_rows), kinds, names, tied)
        if len(line_hashes) != len(expected) or (np.sort(line_hashes) != np.sort(expected)).any():
            self._refuse(
                f"the {len(line_hashes)} rows of its changelog are not the {len(expected)} that its rows "
                f"give, for keys from {self._key(window, 0)} to {self._key(window, -1)}"
            )

    def _groups(self, window: WindowKeys, written: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Return the key of each written row; keys without a row must be allowed to have none."""
        keys = key_hashes(window.rows.batch.take(pa.array(window.starts)), self.shape)
        hashes = key_hashes(written, self.shape)
        present = np.ones(len(keys), bool) if np.array_equal(keys, hashes) else np.isin(keys, hashes)
        if present.sum() != len(hashes) or (keys[present] != hashes).any():
            self._refuse(f"its outputs hold keys, after {self._key(window, 0)}, that its inputs lack")
        expected = window.expected
        may = window.absent | expected.no_rows | window.tied
        if self.may_drop:
            may |= expected.may_vanish
        everyone = np.arange(len(keys))
        self._all_right(window, everyone, present | may, "the missing result")
        self._all_right(window, everyone, ~(present & window.absent) | window.tied, "the result")
        return np.flatnonzero(present)

    def _folded_columns(self, window: WindowKeys, groups: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
        """Return columns of the results as the rows make them."""
        names = [field.name for field in self.shape.values if field.name not in self.left_out]
        if not len(groups):
            return {}
        return recompute(self.rules, window.rows.batch, window.starts, window.fates, groups, names)

    def _due(self, window: WindowKeys, results: Results, keys: Words, reported: Words) -> ChangeLines:
        """Return the lines that must exist. Keys that kept their values may be left out, if the table's
        options say so.
        """
        rows = KeyRows(
            starts=window.starts,
            counted=np.asarray(window.fates == Fate.FOLDED),
            levels=window.rows.levels,
            groups=results.groups,
            kinds=window.rows.batch.column(KIND_NAME).to_numpy(),
            result_kinds=results.batch.column(KIND_NAME).to_numpy(),
        )
        due = expect_changes(self.rules, rows, np.empty(0, np.int64))
        compared = [name for name in self.rules.compared if name in results.batch.schema.names]
        if not self.rules.compared:
            return due
        pairs, before, after = due.pairs
        announced = np.isin(keys[pairs], reported)
        old = [window.rows.batch.column(name).take(pa.array(before)) for name in compared]
        new = [results.batch.column(name).take(pa.array(after)) for name in compared]
        if len(compared) == len(self.rules.compared):
            loud = np.flatnonzero(announced & ~window.tied[pairs])
            differ = ~certainly_same(old, new)[loud]
            self._all_right(window, pairs[loud], differ, "the change of a row that stayed the same")
        silent = np.flatnonzero(~announced & ~window.tied[pairs])
        if not len(silent):
            return due
        same = same_where_known(old, new)[silent]
        self._all_right(window, pairs[silent], same, "the missing change")
        return expect_changes(self.rules, rows, pairs[silent])

    def _line_hashes(
        self, batch: pa.RecordBatch, rows: Any, kinds: Any, names: Sequence[str], tied: Words
    ) -> Words:
        picked = batch.take(pa.array(rows))
        shape = replace(self.shape, values=tuple(field for field in self.shape.values if field.name in names))
        columns = [
            pa.array(self._hashes(name, picked.column(name)).view(np.int64))
            if name in self.rules.unordered
            else picked.column(name)
            for name in (*key_names(shape), *names, SEQUENCE_NAME)
        ]
        hashes = hash_rows([*columns, pa.array(np.asarray(kinds, np.int8))], shape.field_ids)
        return hashes[~np.isin(key_hashes(picked, shape), tied)] if len(tied) else hashes

    def _all_right(self, window: WindowKeys, groups: Any, right: Any, what: str) -> None:
        if not right.all():
            key = self._key(window, int(groups[int(np.argmin(right))]))
            self._refuse(f"key {key}: {what} does not follow from its rows")

    def _key(self, window: WindowKeys, place: int) -> KeyValues:
        names = key_names(self.shape)
        return key_at([window.rows.batch.column(name) for name in names], int(window.starts[place]))

    def _refuse(self, problem: str) -> NoReturn:
        raise ProofError(self.unit, f"{problem} (sample of seed {self.shape.seed})")

    def _hashes(self, name: str, column: pa.Array) -> Words:
        hashes = hash_unordered if name in self.rules.unordered else hash_array
        return hashes(column, column_constant(0))
