"""This module runs one unit of a primary-key compaction: merge, write, and read back for the proof."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakecore.compact.engine.work import UnitResult, attempt_name
from lakecore.compact.kinds.primary_key.certified_merge import CertifiedMerge
from lakecore.compact.kinds.primary_key.copies import UnitWriter, planned_copies
from lakecore.compact.kinds.primary_key.inputs import UnitInputs, merge_sample
from lakecore.compact.kinds.primary_key.lookup.run import LevelMerge, LevelWindow
from lakecore.compact.kinds.primary_key.unit import (
    LookupMerge,
    MergeUnit,
    MovedFileUnit,
    changelog_spec,
    deleted_rows,
    file_spec,
    stored,
    with_keys,
)
from lakecore.errors import ProofError
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.format.parquet.splice.reasons import SpliceRefusal
from lakecore.lookup.lookup_files import LookupFiles
from lakecore.merge.passes import Scratch
from lakecore.merge.row_sorter import RowSorter, keyed
from lakecore.merge.sorted_merge import MergedWindow
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.prefetch import PREFETCH_BYTES, in_background, prefetch
from lakecore.row.sort_rule import SortRule
from lakecore.verify.digest.digest import Tally, total
from lakecore.verify.digest.file_tally import FileTally
from lakecore.verify.proof.copied_inputs import CopiedInputs, has_tally_of_copy
from lakecore.verify.proof.outputs import OutputEvidence, OutputTally
from lakecore.verify.proof.pick_proof import UnitProof, check_changelog, check_outputs, tally_input
from lakecore.verify.sample.choice import RowSample
from lakecore.verify.sample.key_marks import Marks
from lakecore.verify.sample.lookups import LookupFile, check_lookup_files, search_keys, tally_positions
from lakecore.verify.sample.merge_sample import MergeSample, sample_merge
from lakecore.write.files.copy_plan import CopyCount, CopyPlan
from lakecore.write.files.copy_steps import UnitCopies
from lakecore.write.files.rolling import FileSpec, RollingWriter

__all__ = ["run_unit"]

logger = logging.getLogger(__name__)

_SORT_BYTES = 48 << 20
"""Of a buffer that rows are sorted in while others are merged; it takes about four times that."""

Window = TypeVar("Window", MergedWindow, LevelWindow)


def run_unit(unit: MergeUnit | MovedFileUnit) -> UnitResult:
    """Merge, write, read back. On any failure the files of this attempt are removed again.

    Raises ProofError when the merge or its outputs do not hold, CorruptDataError, UnavailableError.
    """
    if isinstance(unit, MovedFileUnit):
        return _run_moved(unit)
    if unit.by_level is not None:
        return _run_by_level(unit, unit.by_level)
    if unit.copy is CopyMode.NONE:
        return _run_plain(unit)
    copies = planned_copies(unit)
    plan = copies.plan
    if plan.copies:
        try:
            return _run_copies(unit, copies)
        except SpliceRefusal as err:
            logger.warning("%s is decoded: %s", unit.name, err)
            plan = CopyPlan.refused(len(plan.parts), err.reason)
    elif not unit.parts:
        return _run_plain(unit)
    return replace(_run_plain(unit), copied=CopyCount.of(plan))


def _run_moved(unit: MovedFileUnit) -> UnitResult:
    """Write the lookup file of a file that moves, and read it back."""
    lookup_files = LookupFiles(unit.table.reading, unit.bucket_dir)
    try:
        token = f"{unit.file_prefix}{attempt_name(unit.table.clock)}"
        name = lookup_files.write_for_moved(unit.file, token)
    except BaseException:
        lookup_files.abort()
        raise
    names = {unit.file.file_name: name}
    return UnitResult(unit=unit.name, files=(), rows_in=0, inputs=(), proof=None, lookup_files=names)


def _run_copies(unit: MergeUnit, plan: UnitCopies) -> UnitResult:
    """Copy what the plan copies, and merge what lies between. Raises SpliceRefusal where pages of a file are
    not as its footer says.
    """
    copies = UnitWriter(unit, plan)
    lookup_files = LookupFiles(unit.table.reading, unit.bucket_dir)
    by_copy = _inputs_by_copy(unit, copies)
    names = {file.file_name for file in by_copy.values()}
    decoded = [file for file in unit.tallied if file.file_name not in names]
    try:
        marks: Marks = {}
        with in_background(_tallies(unit, marks, decoded), thread=unit.overlap) as counted:
            files = lookup_files.write_for(copies.write())
            tallies = tuple(counted)
        copied = copies.compare(files)
        inputs = CopiedInputs(
            unit.table.shape,
            unit.name,
            {number: stored(unit, file) for number, file in by_copy.items()},
            copied,
        )
        try:
            outputs = _outputs(unit, files, marks, inputs.tally)
        except ProofError:
            for _ in _tallies(unit, {}, by_copy.values()):
                """An input that was damaged before is the error."""
            raise
        tallies += tuple(inputs.finished(marks))
        sample = _sample(unit, replace(merge_sample(unit, copies.inputs, files), copied=copied.rows), marks)
        evidence = copies.evidence(marks)
    except BaseException:
        lookup_files.abort()
        copies.abort()
        raise
    return UnitResult(
        unit=unit.name,
        files=files,
        rows_in=copies.inputs.rows_in,
        inputs=tallies,
        proof=UnitProof(unit=unit.name, outputs=outputs, evidence=evidence, sample=sample),
        copied=CopyCount.of(plan.plan),
    )


def _run_plain(unit: MergeUnit) -> UnitResult:
    inputs = UnitInputs(unit)
    merge = CertifiedMerge(unit, inputs)
    writer = _KeyedWriter(unit, file_spec(unit))
    lookup_files = LookupFiles(unit.table.reading, unit.bucket_dir)
    try:
        marks: Marks = {}
        with in_background(_tallies(unit, marks, unit.tallied), thread=unit.overlap) as counted:
            with closing(_ahead(merge.windows(), unit)) as merged:
                for window in merged:
                    writer.write(window.batch)
            files = lookup_files.write_for(writer.close())
            outputs = _outputs(unit, files, marks)
            tallies = tuple(counted)
        sample_input = merge_sample(unit, inputs, files)
        sample = _sample(unit, sample_input, marks)
    except BaseException:
        lookup_files.abort()
        writer.abort()
        raise
    proof = UnitProof(unit=unit.name, outputs=outputs, evidence=merge.evidence(), sample=sample)
    return UnitResult(unit=unit.name, files=files, rows_in=inputs.rows_in, inputs=tallies, proof=proof)


def _run_by_level(unit: MergeUnit, by_level: LookupMerge) -> UnitResult:
    inputs = UnitInputs(unit)
    merge = LevelMerge(unit, by_level, inputs)
    rows = _KeyedWriter(unit, file_spec(unit) if by_level.rewrites else None, unit.rule)
    changes = _KeyedWriter(unit, changelog_spec(unit))
    lookup_files = LookupFiles(unit.table.reading, unit.bucket_dir)
    try:
        marks: Marks = {}
        with in_background(_tallies(unit, marks, unit.tallied), thread=unit.overlap) as counted:
            with closing(_ahead(merge.windows(), unit)) as merged:
                for window in merged:
                    rows.write(window.batch)
                    changes.write(window.changes)
            files, changelog = lookup_files.write_for(rows.close()), changes.close()
            tallies = tuple(counted)
        sample_input = merge_sample(unit, inputs, files, changelog, merge.positions_found)
        moved = OutputEvidence(rows=total(tallies))  # a file that moves is what comes out
        outputs = _outputs(unit, files, marks) if by_level.rewrites else moved
        proof = UnitProof(
            unit=unit.name,
            outputs=outputs,
            evidence=merge.evidence(),
            changes=check_changelog(unit.table.proof, unit.name, [stored(unit, file) for file in changelog]),
            looked_up=_looked_up(unit, by_level, merge.positions_found),
            searched=_search(unit, by_level, merge.evidence().key_hashes),
            sample=_sample(unit, sample_input, marks),
        )
    except BaseException:
        lookup_files.abort()
        rows.abort()
        changes.abort()
        raise
    return UnitResult(
        unit=unit.name,
        files=files,
        changelog=changelog,
        lookups={name: positions.serialize() for name, positions in merge.positions_found.items()},
        rows_in=inputs.rows_in,
        inputs=tallies,
        proof=proof,
    )


def _inputs_by_copy(unit: MergeUnit, copies: UnitWriter) -> Mapping[int, DataFile]:
    """Return the inputs, by number, whose tallies are those of their copies."""
    schema_id, names = file_spec(unit).schema.id, {file.file_name for file in unit.tallied}
    return {
        number: file
        for number, file in copies.whole_files.items()
        if file.file_name in names and has_tally_of_copy(unit.table.shape, stored(unit, file), schema_id)
    }


def _outputs(
    unit: MergeUnit, files: Sequence[DataFile], marks: Marks, tally: OutputTally | None = None
) -> OutputEvidence:
    return check_outputs(unit.table.proof, unit.name, [stored(unit, file) for file in files], marks, tally)


def _sample(unit: MergeUnit, sample_input: MergeSample, marks: Marks) -> RowSample | None:
    """Return the sample of a part of the rows, with all columns, if the mode of the proof needs one."""
    proof = replace(unit.table.proof, threads=unit.threads)
    return sample_merge(proof, unit.name, sample_input, marks) if proof.shape.samples else None


def _tallies(unit: MergeUnit, marks: Marks, files: Iterable[DataFile]) -> Generator[Tally]:
    """Yield the tallies of live rows of inputs that this unit counts, which are read completely."""
    proof, name = unit.table.proof, unit.name
    for file in files:
        noted = marks if proof.shape.samples else None
        yield tally_input(proof, name, stored(unit, file), deleted=deleted_rows(unit, file), marks=noted)


def _looked_up(unit: MergeUnit, by_level: LookupMerge, bitmaps: Mapping[str, BitMap]) -> Tally:
    """Return the tally of the rows at the positions that the merge looked up, which are read once more."""
    files = {file.file_name: file for level in by_level.above for file in level}
    check_lookup_files(unit.name, bitmaps, files)
    rows = total(
        tally_positions(unit.table.proof, unit.name, _asked_file(unit, files[name]), positions)
        for name, positions in bitmaps.items()
    )
    where = {name: positions.serialize() for name, positions in bitmaps.items()}
    return FileTally(rows.rows, rows.digest, positions=where)


def _search(unit: MergeUnit, by_level: LookupMerge, key_hashes: bytes) -> Tally:
    """Return what a search of all levels finds for the keys that the merge had to look up (full proof)."""
    levels = [[_asked_file(unit, file) for file in level] for level in by_level.above]
    return search_keys(unit.table.proof, levels, np.frombuffer(key_hashes, np.uint64))


def _asked_file(unit: MergeUnit, file: DataFile) -> LookupFile:
    return LookupFile(stored(unit, file), deleted_rows(unit, file))


class _KeyedWriter:
    """A rolling writer of key-value rows; without a spec nothing is written."""

    def __init__(self, unit: MergeUnit, spec: FileSpec | None, rule: SortRule | None = None) -> None:
        """Start a writer. `rule` is the order into which rows are sorted, in a buffer that spills; None: they
        are in order.
        """
        table = unit.table
        self._rule = rule
        self._scratch = Scratch()
        self._sorter = RowSorter(self._scratch, _SORT_BYTES)
        self._keys = table.schema.trimmed_primary_keys
        self._writer = (
            None if spec is None else RollingWriter(table.reading.file_io, spec, table.clock.now_ms)
        )

    def write(self, batch: pa.RecordBatch | None) -> None:
        if self._writer is None or batch is None or not batch.num_rows:
            return
        if self._rule is not None:
            self._sorter.add(keyed(batch, self._rule))
        else:
            self._writer.write(with_keys(batch, self._keys))

    def close(self) -> tuple[DataFile, ...]:
        if self._writer is None:
            return ()
        for batch in self._sorter.sorted():
            self._writer.write(with_keys(batch, self._keys))
        self._scratch.close()
        return self._writer.close()

    def abort(self) -> None:
        self._scratch.close()
        if self._writer is not None:
            self._writer.abort()


def _ahead(windows: Generator[Window], unit: MergeUnit) -> Generator[Window]:
    """Yield windows that are made in another thread than they are written, if the unit may use one."""
    return prefetch(windows, PREFETCH_BYTES, _window_bytes) if unit.overlap else windows


def _window_bytes(window: MergedWindow | LevelWindow) -> int:
    changes = window.changes if isinstance(window, LevelWindow) else None
    return sum(batch.nbytes for batch in (window.batch, changes) if batch is not None)
