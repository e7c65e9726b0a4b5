"""This module writes a unit of a primary-key compaction of which row groups or runs of pages are copied:
those of keys that no other file of the unit has. What lies between them is merged.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import groupby

import pyarrow as pa

from lakecore.compact.kinds.primary_key.certified_merge import CertifiedMerge
from lakecore.compact.kinds.primary_key.inputs import UnitInputs
from lakecore.compact.kinds.primary_key.unit import MergeUnit, file_spec, stored, with_keys
from lakecore.executor import count_rows
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.prefetch import PREFETCH_BYTES, prefetch
from lakecore.verify.digest.row_groups import GroupPart
from lakecore.verify.proof.certificate import UnitEvidence, join_evidence
from lakecore.verify.proof.spliced import CopiedGroups, SpliceInput, SpliceOutput, check_row_groups
from lakecore.verify.sample.key_marks import Marks, end_keys, marks_of
from lakecore.write.files.copy_blocks import KeyedUnit
from lakecore.write.files.copy_steps import CopyStep, MergeStep, Step, UnitCopies, plan_unit
from lakecore.write.files.spliced import SplicedFile, SplicedWriter, copy_sources

__all__ = ["UnitWriter", "planned_copies"]


def planned_copies(unit: MergeUnit) -> UnitCopies:
    """Return which row groups of a unit are copied, and what is merged. Cost and errors are those of
    `plan_unit`.
    """
    return plan_unit(
        KeyedUnit(
            reading=unit.table.reading,
            bucket_dir=unit.bucket_dir,
            spec=file_spec(unit),
            parts=unit.parts or (unit.runs,),
            bounds=unit.bounds,
            mode=unit.copy,
            deleted=frozenset(unit.deletions),
            drop_deletes=unit.drop_deletes,
        )
    )


class UnitWriter:
    """It writes a unit step by step. After a failure call `abort`.

    `inputs` counts the rows of all steps.
    """

    def __init__(self, unit: MergeUnit, copies: UnitCopies) -> None:
        reading = unit.table.reading
        self._unit = unit
        self._files = copies.files
        self._steps = copies.steps
        self._merges: dict[int, CertifiedMerge] = {}
        self._writer = SplicedWriter(reading.file_io, file_spec(unit), unit.table.clock.now_ms)
        self._spliced: tuple[SplicedFile, ...] = ()
        self.inputs = UnitInputs(unit)

    def write(self) -> tuple[DataFile, ...]:
        """Carry out all steps. Raises SpliceRefusal, CorruptDataError, ProofError for a merge."""
        reading = self._unit.table.reading
        numbered = groupby(enumerate(self._steps), key=lambda one: isinstance(one[1], MergeStep))
        for is_merged, members in numbered:
            steps = list(members)
            if is_merged:
                with closing(self._ahead(self._merge(steps))) as rows:
                    self._writer.encode(rows)
                continue
            copies = [step for _, step in steps if isinstance(step, CopyStep)]
            footers = [step.footer for step in copies]
            with closing(copy_sources(reading.file_io, footers, self._unit.threads)) as sources:
                for step, source in zip(copies, sources, strict=True):
                    schema = reading.file_schema(step.file.schema_id)
                    self._writer.copy(step.number, source, step.file, schema)
                    count_rows(step.file.row_count)
                    self.inputs.rows_in += step.file.row_count
        self._spliced = self._writer.close()
        return tuple(one.file for one in self._spliced)

    @property
    def whole_files(self) -> Mapping[int, DataFile]:
        """Return the files of which all rows are copied, by number."""
        return {
            step.number: self._files[step.number]
            for step in self._steps
            if isinstance(step, CopyStep) and step.span is None
        }

    def compare(self, files: Sequence[DataFile]) -> CopiedGroups:
        """Compare the row groups that were copied with those of the files of the unit; `files` are the
        written ones. It returns where the copies are. Raises ProofError.
        """
        unit = self._unit
        copied: dict[int, tuple[GroupPart, ...]] = {}
        for step in self._steps:
            if isinstance(step, CopyStep):
                copied[step.number] = copied.get(step.number, ()) + step.parts
        return check_row_groups(
            replace(unit.table.proof, threads=unit.threads),
            unit.name,
            [SpliceInput(stored(unit, file)) for file in self._files],
            [
                SpliceOutput(stored(unit, file), one.origins)
                for file, one in zip(files, self._spliced, strict=True)
            ],
            copied,
        )

    def evidence(self, marks: Marks) -> UnitEvidence:
        """Return what the steps did to their rows. Raises ProofError for steps that are out of order."""
        evidence = (self._step_evidence(number, step, marks) for number, step in enumerate(self._steps))
        return join_evidence(self._unit.name, evidence)

    def abort(self) -> None:
        """Remove all files."""
        self._writer.abort()

    def _ahead(self, rows: Generator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """Yield rows that are merged in another thread than they are written, if the unit may use one."""
        return prefetch(rows, PREFETCH_BYTES, lambda batch: batch.nbytes) if self._unit.overlap else rows

    def _merge(self, steps: Sequence[tuple[int, Step]]) -> Generator[pa.RecordBatch]:
        """Yield the rows that some merges leave, in key order."""
        unit = self._unit
        for number, step in steps:
            if not isinstance(step, MergeStep):
                raise TypeError(f"step {number} is a copy")
            share = replace(unit, runs=step.runs, parts=(), copy=CopyMode.NONE, bounds=step.bounds)
            inputs = UnitInputs(share)
            merge = self._merges[number] = CertifiedMerge(share, inputs)
            for window in merge.windows():
                if window.batch is not None and window.batch.num_rows:
                    yield with_keys(window.batch, unit.table.schema.trimmed_primary_keys)
            self.inputs.rows_in += inputs.rows_in

    def _step_evidence(self, number: int, step: Step, marks: Marks) -> UnitEvidence:
        """Return what became of the rows of a step: a copy leaves all of them, which is what the proof
        compares.
        """
        if isinstance(step, CopyStep):
            proof, source = self._unit.table.proof, stored(self._unit, self._files[step.number])
            if step.span is None:
                keys = marks_of(proof, source, marks)
                return UnitEvidence(rows=step.file.row_count, first_key=keys.keys[0], last_key=keys.last)
            first, last = end_keys(proof, source, step.span)
            return UnitEvidence(rows=step.file.row_count, first_key=first, last_key=last)
        evidence = self._merges[number].evidence()
        if not isinstance(evidence, UnitEvidence):
            raise TypeError("a part of a unit that copies files makes new rows")
        return evidence
