"""This module merges postponed rows of some keys anew and compares them with what was written for them,
column by column.

It is for merge engines where the last row does not simply replace the ones before. The keys are chosen by the
seed of the run, until they have one row of 16. Nothing is taken from the writer: rows come from postponed
files in the order that the format gives them, are numbered, sorted and merged by code of `lakecore/verify`
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.verify.digest.bytes_hash import Words
from lakecore.verify.digest.shape import RowShape
from lakecore.verify.recompute.window_results import WindowRows, expect_window, in_merge_order
from lakecore.verify.rules.merge_rules import ChangeSource, MergeRules
from lakecore.verify.sample.choice import LEAST_SHARE, RowSample, seeded_order
from lakecore.verify.sample.window_check import WindowCheck
from lakecore.verify.sample.window_read import key_names, window_schema

__all__ = ["KeyChoice", "SampledRows", "check_postponed"]

_CLASSES = 128


@dataclass(frozen=True, slots=True)
class KeyChoice:
    """It chooses the keys whose hashes leave one of some remainders."""

    remainders: npt.NDArray[np.bool_]

    @classmethod
    def first(cls, seed: str, unit: str) -> KeyChoice:
        """Return the first choice, which has somewhat more than one remainder of 16."""
        chosen = np.zeros(_CLASSES, bool)
        chosen[seeded_order(seed, unit, _CLASSES)[: _CLASSES // (LEAST_SHARE - 3)]] = True
        return cls(chosen)

    @classmethod
    def of(cls, seed: str, unit: str, keys: Words) -> KeyChoice:
        """Return a choice of as many remainders, in the order of the seed, as have at least one row of 16.
        `keys` are the hashes of the keys of the rows.
        """
        rows = np.bincount((keys % np.uint64(_CLASSES)).astype(np.int64), minlength=_CLASSES)
        order = np.array(seeded_order(seed, unit, _CLASSES))
        enough = int(np.searchsorted(np.cumsum(rows[order]) * LEAST_SHARE, len(keys)))
        chosen = np.zeros(_CLASSES, bool)
        chosen[order[: enough + 1]] = True
        return cls(chosen)

    def includes(self, keys: Words) -> npt.NDArray[np.bool_]:
        """Return which of the rows with these hashes are in the sample."""
        return np.asarray(self.remainders[(keys % np.uint64(_CLASSES)).astype(np.int64)])


@dataclass(slots=True)
class SampledRows:
    """These are rows of the keys of a `choice`, in the order in which they come."""

    shape: RowShape
    choice: KeyChoice
    left_out: set[str] = field(default_factory=set)
    parts: list[pa.RecordBatch] = field(default_factory=list)

    def add(self, columns: Sequence[pa.Array], keys: Words, mask: npt.NDArray[np.bool_]) -> None:
        """Add rows. `columns` are key, values, sequence number and row kind; `keys` are the hashes of their
        keys.
        """
        rows = pa.array(np.flatnonzero(mask & self.choice.includes(keys)))
        if not len(rows):
            return
        schema = window_schema(self.shape)
        typed = [self._cast(column.take(rows), kind) for column, kind in zip(columns, schema, strict=True)]
        self.parts.append(pa.RecordBatch.from_arrays(typed, schema=schema))

    @property
    def count(self) -> int:
        return sum(part.num_rows for part in self.parts)

    @property
    def rows(self) -> WindowRows:
        empty = pa.RecordBatch.from_pylist([], window_schema(self.shape))
        batch = pa.concat_batches([empty, *self.parts])
        return WindowRows(batch, np.zeros(batch.num_rows, np.int64), np.zeros(batch.num_rows, bool))

    def _cast(self, column: pa.Array, kind: pa.Field) -> pa.Array:
        if column.type == kind.type:
            return column
        try:
            return column.cast(kind.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            self.left_out.add(kind.name)
            return pa.nulls(len(column), kind.type)


def check_postponed(unit: str, rules: MergeRules, postponed: SampledRows, written: SampledRows) -> RowSample:
    """Compare a sample of postponed rows. Raises ProofError naming a key and a column if `written` is not
    what the `postponed` rows make.

    Rule of the format: a writer merges the rows of a key as a compaction does; none expires, and no other
    level is looked at. Memory: the rows of the sample.
    """
    shape, rows = postponed.shape, postponed.rows
    if not rows.batch.num_rows:
        return RowSample(windows=1)
    merging = replace(rules, needs_lookup=False, expire_column=None, changes=ChangeSource.NONE)
    keys, sequence = key_names(shape), [column.name for column in shape.sequence]
    ordered = in_merge_order(rows, keys, sequence, descending=shape.descending)
    window = expect_window(ordered, merging, keys, sequence, nearest=False)
    left_out = frozenset(postponed.left_out | written.left_out)
    check = WindowCheck(unit=unit, shape=shape, rules=merging, may_drop=False, left_out=left_out)
    problems = check.results(window, in_merge_order(written.rows, keys, (), descending=False).batch)
    compared = set(problems.names) if len(problems.groups) else {column.name for column in shape.values}
    missing = frozenset(column.name for column in shape.values) - compared
    return RowSample(
        rows=rows.batch.num_rows, windows=1, tied=int(window.tied.sum()), left_out=missing | left_out
    )
