"""This module writes a unit of a primary-key compaction of which files are copied by whole row groups: those
whose keys no other file of the unit has. What lies between them is merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import pyarrow as pa

from lakecore.compact.kinds.primary_key.certified_merge import CertifiedMerge
from lakecore.compact.kinds.primary_key.inputs import UnitInputs
from lakecore.compact.kinds.primary_key.unit import MergeUnit, Run, file_spec, stored, with_keys
from lakecore.format.parquet.splice.footer import Footer
from lakecore.format.parquet.splice.reasons import SpliceReason
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.verify.proof.certificate import UnitEvidence, join_evidence
from lakecore.verify.proof.spliced import SpliceInput, SpliceOutput, check_row_groups
from lakecore.verify.sample.key_marks import Marks, marks_of
from lakecore.write.files.copy_plan import CopyInput, CopyPlan, plan_copies
from lakecore.write.files.spliced import SplicedFile, SplicedWriter

__all__ = ["PartCopies", "copy_plan"]


def copy_plan(unit: MergeUnit) -> CopyPlan:
    """Return which files of the unit are copied, in key order."""
    reading = unit.table.reading
    inputs = [
        CopyInput(stored(unit, file), reading.file_schema(file.schema_id), _merge_refusal(unit, part, file))
        for part in unit.parts
        for file in _files_of(part)
    ]
    return plan_copies(reading.file_io, file_spec(unit), inputs, unit.copy)


def _merge_refusal(unit: MergeUnit, part: tuple[Run, ...], file: DataFile) -> SpliceReason | None:
    """Return why a merge must decode a file: its rows may leave, or be replaced."""
    if len(_files_of(part)) > 1:
        return SpliceReason.OVERLAPS
    if file.file_name in unit.deletions:
        return SpliceReason.DELETED_ROWS
    if file.delete_row_count is None or (unit.drop_deletes and file.delete_row_count):
        return SpliceReason.DELETES
    return None


def _files_of(part: tuple[Run, ...]) -> list[DataFile]:
    return [file for run in part for file in run]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a unit. `footer` is that of its only file, which is copied; None: its runs are merged.
    `number` is that of its first file among those of the unit, in key order.
    """

    runs: tuple[Run, ...]
    number: int
    footer: Footer | None

    @property
    def copied_footer(self) -> Footer:
        """Return the footer of a part that is copied."""
        if self.footer is None:
            raise TypeError(f"part {self.number} is merged")
        return self.footer


def _list_parts(unit: MergeUnit, plan: CopyPlan) -> list[_Part]:
    parts: list[_Part] = []
    number = 0
    for runs in unit.parts:
        decision = plan.parts[number]
        parts.append(_Part(runs, number, decision if isinstance(decision, Footer) else None))
        number += len(_files_of(runs))
    return parts


class PartCopies:
    """It writes a unit part by part, by a plan that copies some of them. After a failure call `abort`.

    `inputs` counts the rows of all parts.
    """

    def __init__(self, unit: MergeUnit, plan: CopyPlan) -> None:
        reading = unit.table.reading
        self._unit = unit
        self._parts = _list_parts(unit, plan)
        self._merges: dict[int, CertifiedMerge] = {}
        self._writer = SplicedWriter(reading.file_io, file_spec(unit), unit.table.clock.now_ms)
        self._spliced: tuple[SplicedFile, ...] = ()
        self.inputs = UnitInputs(unit)

    def write(self) -> tuple[DataFile, ...]:
        """Write all parts. Raises SpliceRefusal, CorruptDataError, ProofError for a merge."""
        reading = self._unit.table.reading
        for is_copied, members in groupby(self._parts, key=lambda part: part.footer is not None):
            if not is_copied:
                self._writer.encode(self._merge(members))
                continue
            for part in members:
                (file,) = _files_of(part.runs)
                self._writer.copy(part.number, part.copied_footer, file, reading.file_schema(file.schema_id))
                self.inputs.rows_in += file.row_count
        self._spliced = self._writer.close()
        return tuple(one.file for one in self._spliced)

    def compare(self, files: Sequence[DataFile]) -> None:
        """Compare the row groups that were copied with those of the files of the parts; `files` are the
        written ones. Raises ProofError.
        """
        unit = self._unit
        check_row_groups(
            unit.table.proof,
            unit.name,
            [SpliceInput(stored(unit, file)) for runs in unit.parts for file in _files_of(runs)],
            [
                SpliceOutput(stored(unit, file), one.origins)
                for file, one in zip(files, self._spliced, strict=True)
            ],
            {part.number for part in self._parts if part.footer is not None},
        )

    def evidence(self, marks: Marks) -> UnitEvidence:
        """Return what the parts did to their rows. Raises ProofError for parts that are out of order."""
        return join_evidence(self._unit.name, (self._part_evidence(part, marks) for part in self._parts))

    def abort(self) -> None:
        """Remove all files."""
        self._writer.abort()

    def _merge(self, parts: Iterable[_Part]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the merges of some parts leave, in key order."""
        unit = self._unit
        for part in parts:
            share = replace(unit, runs=part.runs, parts=())
            inputs = UnitInputs(share)
            merge = self._merges[part.number] = CertifiedMerge(share, inputs)
            for window in merge.windows():
                if window.batch is not None and window.batch.num_rows:
                    yield with_keys(window.batch, unit.table.schema.trimmed_primary_keys)
            self.inputs.rows_in += inputs.rows_in

    def _part_evidence(self, part: _Part, marks: Marks) -> UnitEvidence:
        """Return what became of the rows of a part: a copy leaves all of them, which is what the proof
        compares.
        """
        if part.footer is not None:
            (file,) = _files_of(part.runs)
            keys = marks_of(self._unit.table.proof, stored(self._unit, file), marks)
            return UnitEvidence(rows=file.row_count, first_key=keys.keys[0], last_key=keys.last)
        evidence = self._merges[part.number].evidence()
        if not isinstance(evidence, UnitEvidence):
            raise TypeError("a part of a unit that copies files makes new rows")
        return evidence
