"""A sampled proof of a merge: for some ranges of keys, every column of what was read and of what was written.

Nothing is taken from the merge. The rows of the range are read from the inputs once more, and from the files
of other levels where the rules look there: these must be the rows that the merge looked up. What must become
of all of them is worked out anew (`window_results`, `recompute`) and compared, column by column, with the
rows of the outputs and the lines of the changelog. Ranges are chosen by the seed of the run, among the keys
of the outputs, until one row of 16 was looked at. Of rows that were copied, byte by byte, one short range is
looked at: that the bytes are those of the input was compared, what they decode to was not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, ProofError
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.context import ProofContext
from lakecore.verify.digest.shape import RowShape
from lakecore.verify.recompute.window_results import (
    WindowKeys,
    WindowRows,
    expect_window,
    in_merge_order,
    living_rows,
)
from lakecore.verify.rules.merge_rules import ChangeSource, MergeRules
from lakecore.verify.sample.choice import (
    LEAST_SHARE,
    KeyWindow,
    RowSample,
    RowSpan,
    join_samples,
    key_windows,
    seeded_order,
    window_rows,
)
from lakecore.verify.sample.key_marks import KeySpan, Marks, marks_of
from lakecore.verify.sample.lookup_check import check_found
from lakecore.verify.sample.lookups import LookupFile
from lakecore.verify.sample.output_sample import OutputSample
from lakecore.verify.sample.window_check import Results, WindowCheck
from lakecore.verify.sample.window_read import WindowReader, key_names

__all__ = ["MergeSample", "sample_merge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSample:
    """This is a merge as its sample sees it. `runs`: the inputs, oldest run first. `above`: files of other
    levels where keys are looked up, nearest level first. `looked_up`: the positions of the rows that the
    merge found there, by name of the file. `outputs` None: the inputs only moved to another level.

    `rows`: that went into the merge. `rules`: of its last pass; `nearest`: of several rows of a key above
    level 0 the one on the lowest level stands for all. `may_drop`: results that retract need not be written.
    `now_ms`: when the merge looked for expired rows. `cut`: the merge saw a part of the keys of its inputs.
    `copied`: rows of the outputs whose bytes are those of an input, by path (`check_row_groups`).
    """

    runs: Sequence[Sequence[LookupFile]]
    rows: int
    outputs: Sequence[StoredFile] | None
    changelog: Sequence[StoredFile] = ()
    above: Sequence[Sequence[LookupFile]] = ()
    looked_up: Mapping[str, BitMap] = field(default_factory=dict)
    rules: MergeRules
    nearest: bool = False
    may_drop: bool
    now_ms: int
    cut: bool = False
    copied: Mapping[str, Sequence[RowSpan]] = field(default_factory=dict)

    @property
    def copied_rows(self) -> int:
        """Return the number of rows that went from the inputs to the outputs without being decoded."""
        return sum(stop - start for spans in self.copied.values() for start, stop in spans)


def sample_merge(context: ProofContext, unit: str, merge: MergeSample, marks: Marks) -> RowSample:
    """Compare a sample of a merge and return its account. Raises ProofError naming `unit`, a key and a column
    if an output is not what its inputs make.

    `marks` are those of files read before; those of others are added, which costs a reading of their keys.
    The cost is one row of 16 of those that were merged, some thousand of those that were copied, and a few
    pages beside them of all inputs and outputs, all columns. It keeps the rows of one window in memory.
    """
    sampler = _Sampler(context, unit, merge, WindowReader(context, marks), OutputSample(context, unit))
    windows = sampler.windows()
    parts: list[RowSample] = []
    for window in windows:
        if window.copied:
            continue
        if parts and sum(part.rows for part in parts) * LEAST_SHARE >= merge.rows - merge.copied_rows:
            break
        parts.append(sampler.check(window.keys))
    copied = next((window for window in windows if window.copied), None)
    if copied is not None:
        parts.append(sampler.check(copied.keys))
    sampler.outputs.check()
    return join_samples(parts)


@dataclass(frozen=True, slots=True)
class _Sampler:
    context: ProofContext
    unit: str
    merge: MergeSample
    reader: WindowReader
    outputs: OutputSample

    def windows(self) -> list[KeyWindow]:
        """Return all windows of the unit, in the order in which they are taken.

        There are none where a cut merge wrote nothing, and where the rules ask for columns that changed their
        type.
        """
        merge, marks = self.merge, self.reader.marks
        source = [stored for stored in merge.outputs or () if stored.file.row_count]
        names = {column.name for column in self.reader.shape.values}
        if (not source and merge.cut) or not names.issuperset(_ordering(self.context.shape, merge.rules)):
            return []
        if not source:
            largest = max(merge.runs, key=lambda run: sum(file.stored.file.row_count for file in run))
            source = [file.stored for file in largest]
        stored_bytes = sum(file.stored.file.file_size for run in merge.runs for file in run)
        rows = sum(stored.file.row_count for stored in source)
        merged_in = max(merge.rows - merge.copied_rows, 1)
        merged_out = min(rows - merge.copied_rows, merged_in)
        count = window_rows(merged_out, merged_out / merged_in, stored_bytes // max(merge.rows, 1))
        files = [
            (marks_of(self.context, stored, marks), merge.copied.get(stored.path, ())) for stored in source
        ]
        windows = key_windows(files, count, ends_open=not merge.cut)
        order = seeded_order(self.context.shape.seed, self.unit, len(windows))
        return [windows[number] for number in order]

    def check(self, keys: KeySpan) -> RowSample:
        """Compare the rows of these keys. Raises ProofError unless the outputs have what the inputs make of
        them.
        """
        merge, reader = self.merge, self.reader
        read = reader.inputs(merge.runs, keys)
        rows = read.batch.num_rows
        inside = living_rows(read, merge.rules, merge.now_ms)
        searched = reader.search(inside, merge.above, keys, merge.looked_up)
        check_found(self.unit, searched, merge.looked_up, reader.shape)
        if not inside.batch.num_rows:
            return self._without_rows(keys, rows)
        if merge.above:
            outside = living_rows(reader.outside(searched), merge.rules, merge.now_ms)
            inside = _both(outside, inside)
        window = self._expected_keys(inside)
        check = self._check()
        results = check.moved(window) if merge.outputs is None else self._written_results(check, window, keys)
        if merge.rules.changes is not ChangeSource.NONE:
            check.changes(window, results, self._read(merge.changelog, keys))
        names = {column.name for column in reader.shape.values}
        left_out = names - set(results.names) if len(results.groups) else set()
        return RowSample(
            rows=rows, windows=1, tied=int(window.tied.sum()), left_out=frozenset(left_out | reader.left_out)
        )

    def _written_results(self, check: WindowCheck, window: WindowKeys, keys: KeySpan) -> Results:
        return check.results(window, self._read(self.merge.outputs or (), keys))

    def _without_rows(self, keys: KeySpan, rows: int) -> RowSample:
        """Check a window whose rows all expired: it must have no results."""
        if self._read(self.merge.outputs or (), keys).num_rows:
            raise ProofError(self.unit, f"its outputs hold rows of keys {keys}, which its inputs lack")
        return RowSample(rows=rows, windows=1)

    def _expected_keys(self, rows: WindowRows) -> WindowKeys:
        shape, merge = self.reader.shape, self.merge
        keys, sequence = key_names(shape), [field.name for field in shape.sequence]
        ordered = in_merge_order(rows, keys, sequence, descending=shape.descending)
        return expect_window(ordered, merge.rules, keys, sequence, nearest=merge.nearest)

    def _check(self) -> WindowCheck:
        return WindowCheck(
            unit=self.unit,
            shape=self.reader.shape,
            rules=self.merge.rules,
            may_drop=self.merge.may_drop,
            left_out=frozenset(self.reader.left_out),
        )

    def _read(self, files: Sequence[StoredFile], keys: KeySpan) -> pa.RecordBatch:
        """Return rows of files that were just written."""
        try:
            return self.reader.all_rows(files, keys, self.outputs)
        except CorruptDataError as err:
            raise ProofError(self.unit, f"its outputs cannot be read back: {err}") from err


def _ordering(shape: RowShape, rules: MergeRules) -> set[str]:
    """Return the columns without which the results cannot be computed."""
    groups = {name for group in rules.groups for name in group.sequence}
    expiry = {rules.expire_column} if rules.expire_column is not None else set()
    return groups | expiry | {column.name for column in shape.sequence}


def _both(first: WindowRows, then: WindowRows) -> WindowRows:
    if not first.batch.num_rows:
        return then
    return WindowRows(
        pa.concat_batches([first.batch, then.batch]),
        np.concatenate([first.levels, then.levels]),
        np.concatenate([first.outside, then.outside]),
    )
