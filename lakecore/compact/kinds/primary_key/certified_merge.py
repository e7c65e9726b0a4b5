"""The plain merge of a unit, certified: new files are all it makes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from lakecore.compact.kinds.primary_key.inputs import UnitInputs
from lakecore.compact.kinds.primary_key.unit import MergeUnit, merge_spec
from lakecore.merge.passes import Scratch, reduce_runs, stage_runs
from lakecore.merge.sorted_merge import Evidence, MergedWindow, MergeEvidence, MergeSpec, merge_runs
from lakecore.verify.digest.digest import total
from lakecore.verify.proof.certificate import Certifier, UnitEvidence
from lakecore.verify.recompute.account import MergeCertifier
from lakecore.verify.recompute.evidence import Fate, FoldedWindow, join_passes
from lakecore.verify.recompute.evidence import MergeEvidence as UnitFolds
from lakecore.verify.rules.merge_rules import ChangeSource, read_merge_rules

__all__ = ["CertifiedMerge"]


class CertifiedMerge:
    """This is the certified merge of a unit, in as many passes as its number of runs asks for."""

    def __init__(self, unit: MergeUnit, inputs: UnitInputs) -> None:
        self._unit = unit
        self._inputs = inputs
        rules = read_merge_rules(unit.table.schema, unit.table.reading.options)
        self._rules = replace(rules, changes=ChangeSource.NONE)  # such a merge tells of none
        self._certifiers: list[Certifier] = []
        self._folds: list[MergeCertifier] = []

    def windows(self) -> Generator[MergedWindow]:
        """Yield windows of the last pass, each checked before it is yielded."""
        unit = self._unit
        sizes, limit = self._inputs.sizes()
        runs: list[Iterator[pa.RecordBatch]] = [self._inputs.read(run, sizes) for run in unit.runs]
        with Scratch() as scratch:
            spec = merge_spec(unit, drop_deletes=unit.drop_deletes)
            if spec.engine is None:
                runs = reduce_runs(runs, limit, sizes.batch_rows, self._inner_pass, scratch)
                yield from self._pass(runs, spec, self._certify(spec, may_drop=unit.licensed))
            else:
                check = self._certify(
                    spec, may_drop=unit.licensed
                )  # rows may expire as soon as the first run is read
                yield from self._pass(stage_runs(runs, limit, sizes.batch_rows, scratch), spec, check)

    def evidence(self) -> UnitEvidence | UnitFolds:
        """Return the account of all passes: rows that were dropped in an earlier one count too."""
        if self._folds:
            *earlier, latest = [certifier.evidence for certifier in self._folds]
            return join_passes(earlier, latest)
        *inner, last = [certifier.evidence for certifier in self._certifiers]
        lost, dropped = total(e.lost for e in inner), total(e.dropped for e in inner)
        return replace(
            last,
            rows=last.rows + lost.rows + dropped.rows,
            lost=last.lost + lost,
            dropped=last.dropped + dropped,
            ties=last.ties + sum(e.ties for e in inner),
        )

    def _inner_pass(self, runs: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of an inner pass. Deletes stay: rows that they hide may be in other runs."""
        spec = merge_spec(self._unit, drop_deletes=False)
        for window in self._pass(runs, spec, self._certify(spec, may_drop=False)):
            yield window.batch

    def _pass(
        self, runs: Sequence[Iterator[pa.RecordBatch]], spec: MergeSpec, check: Callable[[MergedWindow], None]
    ) -> Iterator[MergedWindow]:
        for window in merge_runs(runs, spec):
            check(window)
            yield MergedWindow(window.batch, window.rows_in)

    def _certify(self, spec: MergeSpec, *, may_drop: bool) -> Callable[[MergedWindow], None]:
        """Return a check for the windows of a new pass."""
        name, shape = self._unit.name, self._unit.table.shape
        if spec.engine is None:
            certifier = Certifier(name, shape, may_drop=may_drop)
            self._certifiers.append(certifier)
            return partial(_check_kept, certifier)
        now_ms = self._unit.table.clock.now_ms()
        folds = MergeCertifier(name, shape, self._rules, may_drop=may_drop, now_ms=now_ms)
        self._folds.append(folds)
        self._inputs.on_expired = folds.expired
        return partial(_check_folds, folds)


def _check_kept(certifier: Certifier, window: MergedWindow) -> None:
    evidence = window.evidence
    assert isinstance(evidence, Evidence)
    certifier.window(
        evidence.keys, evidence.sequence, evidence.kinds, evidence.lost, evidence.dropped, evidence.lost_rows
    )


def _check_folds(certifier: MergeCertifier, window: MergedWindow) -> None:
    evidence = window.evidence
    assert isinstance(evidence, MergeEvidence)
    fates = np.where(evidence.ignored, Fate.IGNORED, Fate.FOLDED).astype(np.int8)
    certifier.window(
        FoldedWindow(rows=evidence.rows, results=evidence.results, groups=evidence.groups, fates=fates)
    )
