"""This module runs the merge of a unit that has to know levels: windows of new rows, lines of the
changelog, and marks.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakecore.compact.kinds.primary_key.inputs import UnitInputs, with_age
from lakecore.compact.kinds.primary_key.lookup.changelog import SameValues
from lakecore.compact.kinds.primary_key.lookup.merge import (
    LEVEL_NAME,
    LevelRules,
    LookupMergeResult,
    merge_levels,
    with_level,
)
from lakecore.compact.kinds.primary_key.lookup.row_equality import equal_rows
from lakecore.compact.kinds.primary_key.mode import Derivation
from lakecore.compact.kinds.primary_key.unit import AGE_NAME, LookupMerge, MergeUnit, deleted_rows, merge_spec
from lakecore.data_class import dataclass
from lakecore.lookup.levels import LevelsAbove, LookupResult
from lakecore.lookup.located import LookupSource
from lakecore.lookup.scattered import ScatteredRows
from lakecore.merge.engines.deduplicate import Deduplicate
from lakecore.merge.groups import Groups
from lakecore.merge.passes import Scratch, reduce_runs, stage_runs
from lakecore.merge.sorted_merge import group_rows
from lakecore.merge.windows import Part, windows
from lakecore.metadata.options import MergeEngine
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME, is_retract
from lakecore.read.file.sizes import ReadSizes
from lakecore.verify.digest.shape import ProofMode
from lakecore.verify.recompute.account import MergeCertifier
from lakecore.verify.recompute.evidence import Fate, FoldedWindow, MergeEvidence, join_passes
from lakecore.verify.rules.merge_rules import ChangeSource, read_merge_rules

__all__ = ["LevelMerge", "LevelWindow"]

Batches = Iterator[pa.RecordBatch]
_MANY_KEYS_BYTES = 4 << 20
_OLDEST = -1


@dataclass(frozen=True, slots=True)
class LevelWindow:
    """These are the new rows and lines of the changelog of one window, which are in key order."""

    batch: pa.RecordBatch
    changes: pa.RecordBatch | None


class LevelMerge:
    """It merges the runs of a unit. `found`: positions by file name, of the rows that were looked up so
    far.
    """

    def __init__(self, unit: MergeUnit, by_level: LookupMerge, inputs: UnitInputs) -> None:
        self._unit = unit
        self._by_level = by_level
        self._inputs = inputs
        self._spec = replace(merge_spec(unit, drop_deletes=False), evidence=False, lost_rows=False)
        self._rules = _rules(unit, by_level, inputs.columns)
        self._certifiers: list[MergeCertifier] = []
        self.positions_found: dict[str, BitMap] = {}

    def windows(self) -> Generator[LevelWindow]:
        """Yield the windows. It keeps a batch of every run and level in memory, their window and its
        result.
        """
        unit, by_level = self._unit, self._by_level
        self._expired = self._certifier(may_drop=False, last=False)
        self._inputs.on_expired = self._expired.expired
        sizes, limit = self._inputs.sizes(beside=len(by_level.above))
        ages = [None if unit.rule is None else age for age in range(len(unit.runs))]
        runs = [self._inputs.read_levels(run, sizes, age) for run, age in zip(unit.runs, ages, strict=True)]
        with ExitStack() as stack:
            scratch = stack.enter_context(Scratch())
            above = self._above(sizes, scratch)
            if above is not None:
                stack.enter_context(above)
            older = len(runs) - by_level.fresh
            if unit.table.reading.engine is None:
                most = max(limit - older, 2)
                fresh = reduce_runs(runs[older:], most, sizes.batch_rows, self._inner_pass, scratch)
                runs[older:] = fresh
            else:
                runs = stage_runs(runs, limit, sizes.batch_rows, scratch)
            certifier = self._certifier(may_drop=unit.licensed, last=True)
            for parts in windows(runs, self._spec.key_columns):
                yield self._merge(parts, above, certifier)

    def evidence(self) -> MergeEvidence:
        """Return the account of all passes."""
        *earlier, latest = [certifier.evidence for certifier in self._certifiers]
        return join_passes(earlier, latest)

    def _certifier(self, *, may_drop: bool, last: bool) -> MergeCertifier:
        """Return a certifier for the windows of a new pass. `last` tells that the pass makes the unit's
        results.
        """
        table, level = self._unit.table, self._unit.output_level if last else 0
        rules = read_merge_rules(table.schema, table.reading.options, level, self._by_level.top_level)
        rules = replace(rules, needs_lookup=last and rules.needs_lookup and self._by_level.fresh > 0)
        if self._unit.rule is not None:  # what was committed later counts, also a delete
            rules = replace(rules, ignore_retracts=False)
        if not last:
            rules = replace(rules, changes=ChangeSource.NONE)
        certifier = MergeCertifier(
            self._unit.name, table.shape, rules, may_drop=may_drop, now_ms=table.clock.now_ms()
        )
        self._certifiers.append(certifier)
        return certifier

    def _above(self, sizes: ReadSizes, scratch: Scratch) -> LevelsAbove | ScatteredRows | None:
        unit, levels = self._unit, self._by_level.above
        if not levels:
            return None
        source = LookupSource(unit.table.reading, unit.bucket_dir, partial(deleted_rows, unit))
        if unit.rule is not None:
            files = [file for level in levels for file in level]
            scattered = ScatteredRows(source, files, self._inputs.columns, scratch)
            scattered.expect(self._inputs.fresh_keys(), unit.rows)
            return scattered
        above = LevelsAbove(source, levels, self._inputs.columns, sizes)
        if sum(file.file_size for level in levels for file in level) > _MANY_KEYS_BYTES:
            above.expect(self._inputs.fresh_keys())
        return above

    def _inner_pass(self, runs: Sequence[Batches]) -> Batches:
        """Yield runs of level 0 as one; deletes stay, because they hide rows of other levels."""
        spec = replace(self._rules, derivation=Derivation.FULL, singles=False, announces=False)
        certifier = self._certifier(may_drop=False, last=False)
        for parts in windows(runs, self._spec.key_columns):
            groups = group_rows(parts, self._spec)
            merged = merge_levels(groups, 0, replace(spec, drop_deletes=False, first_row=False))
            certifier.window(self._account(groups, merged, 0, singles=False))
            yield with_level(merged.rows, 0)

    def _merge(
        self, parts: Sequence[Part], above: LevelsAbove | ScatteredRows | None, certifier: MergeCertifier
    ) -> LevelWindow:
        hits: list[LookupResult] = []
        if above is not None:
            fresh = [part.batch.column(LEVEL_NAME)[0].as_py() == 0 for part in parts]
            fresh_keys = [part.keys for part, is_fresh in zip(parts, fresh, strict=True) if is_fresh]
            older_keys = [part.keys for part, is_fresh in zip(parts, fresh, strict=True) if not is_fresh]
            hits = above.find(fresh_keys, older_keys, max(part.keys.last for part in parts))
            self._note(hits)
            hits = [living for one in hits if (living := self._living(one)) is not None]
        groups = group_rows([*(self._part(one) for one in hits), *parts], self._spec)
        outside = sum(len(one.positions) for one in hits)
        merged = merge_levels(groups, outside, self._rules)
        certifier.window(self._account(groups, merged, outside, singles=self._rules.singles))
        return LevelWindow(merged.rows, None if merged.changes is None else merged.changes.rows)

    def _living(self, result: LookupResult) -> LookupResult | None:
        """Return what was looked up without rows that are too old, or None if nothing was.

        Rule of the format: such a row is no old row of any change. (First-row asks whether there is a row.)
        """
        old = None if self._rules.first_row else self._inputs.too_old(result.batch)
        if old is None:
            return result
        self._expired.expired(result.batch.filter(pa.array(old)), outside=True)
        live = np.flatnonzero(~old)
        return result.rows(live) if len(live) else None

    def _account(
        self, groups: Groups, merged: LookupMergeResult, outside: int, *, singles: bool
    ) -> FoldedWindow:
        """Return what the proof receives of a window. `singles` tells that single rows were given to the
        engine.
        """
        shape, keys = self._unit.table.shape, self._spec.key_columns
        rows, results = groups.batch, merged.rows
        if shape.mode is not ProofMode.FULL:
            columns = (*self._spec.proof_columns, *self._spec.sequence_columns)
            names = list(dict.fromkeys((*keys, *columns, SEQUENCE_NAME, KIND_NAME)))
            rows, results = rows.select([*names, LEVEL_NAME]), results.select(names)
        rows = rows if groups.order is None else rows.take(pa.array(groups.order))
        fates = np.where(merged.superseded, Fate.SUPERSEDED, Fate.FOLDED).astype(np.int8)
        if self._spec.ignore_retracts:
            retracts = is_retract(rows.column(KIND_NAME).to_numpy())
            sizes = np.diff(groups.starts, append=len(retracts))
            is_emitted = np.repeat((sizes > 1) | singles, sizes)
            fates[retracts & is_emitted & ~merged.superseded] = Fate.IGNORED
        return FoldedWindow(
            rows=rows,
            results=results,
            groups=merged.keys,
            fates=fates,
            levels=rows.column(LEVEL_NAME).to_numpy(),
            outside=groups.rows < outside,
            unchanged=None if merged.changes is None else merged.changes.unchanged,
        )

    def _part(self, result: LookupResult) -> Part:
        batch = result.batch if self._unit.rule is None else with_age(result.batch, _OLDEST)
        return Part(with_level(batch, result.file.level), result.keys)

    def _note(self, results: Sequence[LookupResult]) -> None:
        for one in results:
            positions = self.positions_found.get(one.file.file_name, BitMap())
            self.positions_found[one.file.file_name] = positions | BitMap(one.positions.astype(np.uint32))


def _rules(unit: MergeUnit, by_level: LookupMerge, columns: tuple[str, ...]) -> LevelRules:
    options = unit.table.reading.options
    return LevelRules(
        derivation=by_level.derivation,
        engine=unit.table.reading.engine or Deduplicate(options.ignore_delete and unit.rule is None),
        columns=columns if unit.rule is None else (*columns, AGE_NAME),
        drop_deletes=unit.drop_deletes,
        announces=by_level.announces,
        top_level=by_level.top_level,
        first_row=options.merge_engine is MergeEngine.FIRST_ROW,
        all_rows=options.merge_engine in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW),
        singles=by_level.derivation is Derivation.LOOKUP and by_level.fresh > 0,
        same=_same_values(unit),
    )


def _same_values(unit: MergeUnit) -> SameValues | None:
    """Return the comparison for option `changelog-producer.row-deduplicate`, or None."""
    options = unit.table.reading.options
    if not options.row_deduplicate:
        return None
    ignored = options.row_deduplicate_ignored
    names = [name for name in unit.table.schema.row_type.names if name not in ignored]
    return partial(equal_rows, columns=names)
