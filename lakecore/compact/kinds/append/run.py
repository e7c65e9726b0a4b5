"""This module runs one unit of an append compaction: it writes the live rows of files, in order, into new
ones, and reads these back. Rows are decoded and encoded, or copied by whole row groups of parquet files.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import groupby

import pyarrow as pa
from pyroaring import BitMap

from lakecore.compact.engine.outputs import file_spec, numbered
from lakecore.compact.engine.outputs import stored as stored_file
from lakecore.compact.engine.work import UnitResult, UnitTable
from lakecore.data_class import dataclass
from lakecore.executor import count_rows, unit_cores
from lakecore.format.encoders import Encoders
from lakecore.format.parquet.splice.footer import Footer
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.format.parquet.splice.reasons import SpliceReason, SpliceRefusal
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.prefetch import PREFETCH_BYTES, in_background, prefetch
from lakecore.processes.cores import core_count
from lakecore.read.file.file_reader import FileRows, read_file
from lakecore.read.file.sizes import ReadSizes, row_bytes, sizes_for
from lakecore.store.indexes import load_deletions
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.digest import Tally
from lakecore.verify.digest.shape import ProofMode
from lakecore.verify.proof.pick_proof import UnitProof, check_outputs, tally_input
from lakecore.verify.proof.row_ids import prove_row_ids
from lakecore.verify.proof.spliced import SpliceInput, SpliceOutput, check_splices
from lakecore.verify.sample.choice import RowSample
from lakecore.verify.sample.lookups import LookupFile
from lakecore.verify.sample.row_sample import sample_rows
from lakecore.write.files.copy_plan import CopyCount, CopyInput, CopyPlan, plan_copies
from lakecore.write.files.rolling import FileSpec, RollingWriter
from lakecore.write.files.spliced import SplicedWriter, copy_sources

__all__ = ["ConcatUnit", "run_unit"]

logger = logging.getLogger(__name__)

_ENCODERS = 2
"""So many threads encode about as fast as one thread decodes. Each of them has a row group in memory."""


@dataclass(frozen=True, kw_only=True)
class ConcatUnit:
    """This unit joins `files` in this order, without their deleted rows (`deletions`, in the same order).

    `file_prefix`: begins the names of new files; the unit adds the attempt. `copy`: what is copied by row
    groups. `overlap`: encode in other threads than decode.
    """

    name: str
    table: UnitTable
    bucket_dir: str
    files: tuple[DataFile, ...]
    deletions: tuple[DeletionFile | None, ...]
    file_prefix: str
    copy: CopyMode = CopyMode.NONE
    overlap: bool = False

    @property
    def output_level(self) -> int:
        return 0

    @property
    def rows(self) -> int:
        return sum(file.row_count for file in self.files)

    @property
    def joins(self) -> tuple[DataFile, ...]:
        """Return the files whose rows follow one another."""
        return self.files

    @property
    def threads(self) -> int:
        """Return how many threads may copy files and read them for the proof."""
        return 2 if self.overlap else 1

    def with_second_thread(self) -> ConcatUnit:
        return replace(self, overlap=True)


def run_unit(unit: ConcatUnit) -> UnitResult:
    """Write, read back. On any failure the files of this attempt are removed again.

    Raises ProofError when the outputs do not hold, CorruptDataError, UnavailableError.
    """
    spec = file_spec(unit, unit.files[0].min_sequence_number)
    plan = _copy_plan(unit, spec)
    if plan is not None and plan.copies:
        try:
            return _by_copying(unit, spec, plan)
        except SpliceRefusal as err:
            logger.warning("%s is decoded: %s", unit.name, err)
            plan = CopyPlan.refused(len(unit.files), err.reason)
            spec = file_spec(unit, unit.files[0].min_sequence_number)
    result = _by_decoding(unit, spec)
    return result if plan is None else replace(result, copied=CopyCount.of(plan))


def _by_decoding(unit: ConcatUnit, spec: FileSpec) -> UnitResult:
    """Decode and encode all rows."""
    table = unit.table
    encoders = _encoders(unit)
    writer = RollingWriter(table.reading.file_io, spec, table.clock.now_ms, encoders=encoders)
    try:
        rows_in = 0
        batches = _batches(unit, range(len(unit.files)))
        with in_background(_tallies(unit), thread=unit.overlap) as tallies:
            with closing(_ahead(unit, batches)) as batches_ahead:
                for batch in batches_ahead:
                    rows_in += batch.num_rows
                    writer.write(batch)
            writer.begin_close()
            files = numbered(unit, writer.close())
            outputs = check_outputs(table.proof, unit.name, [stored_file(unit, file) for file in files])
            inputs = tuple(tallies)
        sample = _sample(unit, files)
        if unit.table.reading.options.row_tracking:
            _prove_row_ids(unit, files)
    except BaseException:
        writer.abort()
        raise
    proof = UnitProof(unit=unit.name, outputs=outputs, sample=sample)
    return UnitResult(unit=unit.name, files=files, rows_in=rows_in, inputs=inputs, proof=proof)


def _copy_plan(unit: ConcatUnit, spec: FileSpec) -> CopyPlan | None:
    """Return what is copied; None if nothing is to be."""
    if unit.copy is CopyMode.NONE:
        return None
    reading = unit.table.reading
    inputs = [
        CopyInput(
            stored_file(unit, file),
            reading.file_schema(file.schema_id),
            None if deletion is None else SpliceReason.DELETED_ROWS,
        )
        for file, deletion in zip(unit.files, unit.deletions, strict=True)
    ]
    return plan_copies(reading.file_io, spec, inputs, unit.copy)


def _by_copying(unit: ConcatUnit, spec: FileSpec, plan: CopyPlan) -> UnitResult:
    """Copy the files that the plan copies, and decode the others between them. Raises SpliceRefusal where
    pages of a file are not as its footer says.
    """
    table = unit.table
    file_io = table.reading.file_io
    writer = SplicedWriter(file_io, spec, table.clock.now_ms)
    try:
        for copies, members in groupby(enumerate(plan.parts), key=lambda one: isinstance(one[1], Footer)):
            if not copies:
                rows = _batches(unit, [number for number, _ in members])
                with closing(_ahead(unit, rows)) as batches:
                    writer.encode(batches)
                continue
            parts = list(members)
            footers = [part for _, part in parts if isinstance(part, Footer)]
            with closing(copy_sources(file_io, footers, unit.threads)) as sources:
                for (number, _), source in zip(parts, sources, strict=True):
                    file = unit.files[number]
                    writer.copy(number, source, file, table.reading.file_schema(file.schema_id))
                    count_rows(file.row_count)
        spliced = writer.close()
        splices = check_splices(
            replace(table.proof, threads=unit.threads),
            unit.name,
            [SpliceInput(stored, deleted) for stored, deleted in _inputs(unit)],
            [SpliceOutput(stored_file(unit, one.file), one.origins) for one in spliced],
        )
        files = tuple(one.file for one in spliced)
        inputs: tuple[Tally, ...] = splices.inputs
        outputs = splices.outputs
        if table.shape.mode is ProofMode.FULL:
            outputs = check_outputs(table.proof, unit.name, [stored_file(unit, file) for file in files])
            inputs = tuple(_tallies(unit))
        sample = _sample(unit, files, copied=all(isinstance(part, Footer) for part in plan.parts))
    except BaseException:
        writer.abort()
        raise
    return UnitResult(
        unit=unit.name,
        files=files,
        rows_in=sum(tally.rows for tally in inputs),
        inputs=inputs,
        proof=UnitProof(unit=unit.name, outputs=outputs, sample=sample),
        copied=CopyCount.of(plan),
    )


def _batches(unit: ConcatUnit, numbers: Sequence[int]) -> Generator[pa.RecordBatch]:
    """Yield the rows of some of the files in order. It costs reads of some footers, for the size of a
    batch.
    """
    reading = unit.table.reading
    paths = [reading.paths.data_file(unit.bucket_dir, unit.files[number]) for number in numbers]
    sizes = sizes_for(1, len(unit.table.schema.fields), row_bytes(reading.file_io, paths))
    for number in numbers:
        file, deletion = unit.files[number], unit.deletions[number]
        deletions = None if deletion is None else load_deletions(reading.file_io, deletion)
        rows, size = FileRows(deletions=deletions), ReadSizes(sizes.batch_rows)
        for batch in read_file(reading, unit.bucket_dir, file, None, rows, size):
            count_rows(batch.num_rows)
            yield batch


def _encoders(unit: ConcatUnit) -> Encoders | None:
    """Return the threads that encode, or None where the unit may use one core, or has no second thread."""
    cores = unit_cores() or core_count()
    return Encoders(_ENCODERS) if unit.overlap and cores > 1 else None


def _ahead(unit: ConcatUnit, batches: Generator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
    """Yield batches that are decoded in another thread than they are written, if the unit may use one."""
    return prefetch(batches, PREFETCH_BYTES, lambda batch: batch.nbytes) if unit.overlap else batches


def _inputs(unit: ConcatUnit) -> list[tuple[StoredFile, BitMap | None]]:
    """Return the files as the proof opens them, with their deleted rows."""
    file_io = unit.table.proof.file_io
    return [
        (stored_file(unit, file), None if deletion is None else load_deletions(file_io, deletion))
        for file, deletion in zip(unit.files, unit.deletions, strict=True)
    ]


def _tallies(unit: ConcatUnit) -> Generator[Tally]:
    before = 0
    for file, deletion in zip(unit.files, unit.deletions, strict=True):
        deleted = None if deletion is None else load_deletions(unit.table.proof.file_io, deletion)
        tally = tally_input(unit.table.proof, unit.name, stored_file(unit, file), before, deleted)
        before += tally.rows
        yield tally


def _sample(unit: ConcatUnit, files: tuple[DataFile, ...], *, copied: bool = False) -> RowSample | None:
    """Return the sample of a part of the rows, with all columns, if the mode of the proof needs one."""
    proof = replace(unit.table.proof, threads=unit.threads)
    if not proof.shape.samples:
        return None
    inputs = [LookupFile(stored, deleted) for stored, deleted in _inputs(unit)]
    outputs = [LookupFile(stored_file(unit, file)) for file in files]
    return sample_rows(proof, unit.name, inputs, outputs, copied=copied)


def _prove_row_ids(unit: ConcatUnit, files: tuple[DataFile, ...]) -> None:
    outputs = [stored_file(unit, file) for file in files]
    prove_row_ids(unit.table.proof.file_io, unit.name, _inputs(unit), outputs)
