"""This module runs one unit of an append compaction: it copies live rows of files, in order, into new ones,
and reads them back.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lakecore.compact.engine.outputs import file_spec, numbered
from lakecore.compact.engine.outputs import stored as stored_file
from lakecore.compact.engine.work import UnitResult, UnitTable
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.prefetch import PREFETCH_BYTES, in_background, prefetch
from lakecore.read.file.file_reader import FileRows, read_file
from lakecore.read.file.sizes import ReadSizes, row_bytes, sizes_for
from lakecore.store.indexes import load_deletions
from lakecore.verify.digest.digest import Tally
from lakecore.verify.proof.pick_proof import UnitProof, check_outputs, tally_input
from lakecore.verify.proof.row_ids import prove_row_ids
from lakecore.verify.sample.choice import RowSample
from lakecore.verify.sample.lookups import LookupFile
from lakecore.verify.sample.row_sample import sample_rows
from lakecore.write.files.rolling import RollingWriter

__all__ = ["ConcatUnit", "run_unit"]


@dataclass(frozen=True, kw_only=True)
class ConcatUnit:
    """This unit joins `files` in this order, without their deleted rows (`deletions`, in the same order).

    `file_prefix`: begins the names of new files; the unit adds the attempt. `overlap`: encode in another
    thread than decode.
    """

    name: str
    table: UnitTable
    bucket_dir: str
    files: tuple[DataFile, ...]
    deletions: tuple[DeletionFile | None, ...]
    file_prefix: str
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

    def with_second_thread(self) -> ConcatUnit:
        return replace(self, overlap=True)


def run_unit(unit: ConcatUnit) -> UnitResult:
    """Copy, read back. On any failure the files of this attempt are removed again.

    Raises ProofError when the outputs do not hold, CorruptDataError, UnavailableError.
    """
    table = unit.table
    writer = RollingWriter(
        table.reading.file_io, file_spec(unit, unit.files[0].min_sequence_number), table.clock.now_ms
    )
    try:
        rows_in = 0
        batches = _batches(unit)
        ahead = partial(prefetch, room=PREFETCH_BYTES, size=lambda batch: batch.nbytes)
        with closing(ahead(batches) if unit.overlap else batches) as batches_ahead:
            for batch in batches_ahead:
                rows_in += batch.num_rows
                writer.write(batch)
        with in_background(_tallies(unit), thread=unit.overlap) as tallies:
            files = numbered(unit, writer.close())
            outputs = check_outputs(table.proof, unit.name, [stored_file(unit, file) for file in files])
            inputs = tuple(tallies)
        sample = _sampled(unit, files)
        if unit.table.reading.options.row_tracking:
            _prove_row_ids(unit, files)
    except BaseException:
        writer.abort()
        raise
    proof = UnitProof(unit=unit.name, outputs=outputs, sample=sample)
    return UnitResult(unit=unit.name, files=files, rows_in=rows_in, inputs=inputs, proof=proof)


def _batches(unit: ConcatUnit) -> Generator[pa.RecordBatch]:
    """Yield the rows of the files in order. It costs reads of some footers, for the size of a batch."""
    reading = unit.table.reading
    paths = [reading.paths.data_file(unit.bucket_dir, file) for file in unit.files]
    sizes = sizes_for(1, len(unit.table.schema.fields), row_bytes(reading.file_io, paths))
    for file, deletion in zip(unit.files, unit.deletions, strict=True):
        deletions = None if deletion is None else load_deletions(reading.file_io, deletion)
        rows, size = FileRows(deletions=deletions), ReadSizes(sizes.batch_rows)
        yield from read_file(reading, unit.bucket_dir, file, None, rows, size)


def _tallies(unit: ConcatUnit) -> Generator[Tally]:
    before = 0
    for file, deletion in zip(unit.files, unit.deletions, strict=True):
        deleted = None if deletion is None else load_deletions(unit.table.proof.file_io, deletion)
        tally = tally_input(unit.table.proof, unit.name, stored_file(unit, file), before, deleted)
        before += tally.rows
        yield tally


def _sampled(unit: ConcatUnit, files: tuple[DataFile, ...]) -> RowSample | None:
    """Return the sample of a part of the rows, with all columns, if the mode of the proof needs one."""
    proof = unit.table.proof
    if not proof.shape.samples:
        return None
    inputs = [
        LookupFile(
            stored_file(unit, file), None if deletion is None else load_deletions(proof.file_io, deletion)
        )
        for file, deletion in zip(unit.files, unit.deletions, strict=True)
    ]
    return sample_rows(proof, unit.name, inputs, [LookupFile(stored_file(unit, file)) for file in files])


def _prove_row_ids(unit: ConcatUnit, files: tuple[DataFile, ...]) -> None:
    file_io = unit.table.proof.file_io
    inputs = [
        (stored_file(unit, file), None if deletion is None else load_deletions(file_io, deletion))
        for file, deletion in zip(unit.files, unit.deletions, strict=True)
    ]
    prove_row_ids(file_io, unit.name, inputs, [stored_file(unit, file) for file in files])
