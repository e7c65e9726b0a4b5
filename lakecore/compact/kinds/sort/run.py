"""This module runs one unit of a clustering: it writes the rows of a partition within a range, in order, into
new files, and reads them back.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.compact.engine.outputs import file_spec, numbered
from lakecore.compact.engine.outputs import stored as stored_file
from lakecore.compact.engine.work import UnitResult, UnitTable
from lakecore.data_class import dataclass
from lakecore.executor import count_rows
from lakecore.merge.key_columns import Keys
from lakecore.merge.passes import Scratch
from lakecore.merge.row_sorter import KEY_NAME, RowSorter, keyed
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.prefetch import prefetch
from lakecore.read.file.file_reader import FileRows, read_file
from lakecore.read.file.sizes import ReadSizes, row_bytes, sizes_for
from lakecore.row.sort_rule import SortRule
from lakecore.store.indexes import load_deletions
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.digest import Tally, total
from lakecore.verify.proof.outputs import OutputEvidence
from lakecore.verify.proof.pick_proof import UnitProof, check_outputs, tally_input
from lakecore.verify.proof.sorted_rows import Bound, check_sorted
from lakecore.verify.proof.tracked_rows import tally_tracked
from lakecore.verify.rules.drop_licence import DropClaim
from lakecore.write.files.rolling import RollingWriter

__all__ = ["SampleTask", "SortUnit", "keyed_rows", "run_unit", "sample", "tally"]


@dataclass(frozen=True, kw_only=True)
class SortUnit:
    """This unit sorts the rows of `files`, without the deleted ones, from `bounds[0]` to before
    `bounds[1]` (None: no end).

    `checked` are the files that this unit counts for the proof. `output_level` is that of the new files.
    `file_prefix` begins their names; the unit adds the attempt. `overlap` lets a second thread read.
    `licensed` tells that the proof lets deletes be dropped.
    """

    name: str
    table: UnitTable
    rule: SortRule
    bucket_dir: str
    files: tuple[DataFile, ...]
    deletions: tuple[DeletionFile | None, ...]
    checked: tuple[int, ...]
    bounds: tuple[Bound | None, Bound | None]
    file_prefix: str
    rows: int
    output_level: int = 0
    overlap: bool = False
    licensed: bool = False

    @property
    def drops(self) -> DropClaim | None:
        """Return the deletes that a unit with a key wants to drop (`compact.clustered`)."""
        return DropClaim(unit=self.name, merged=self.files) if self.table.reading.keyed else None

    def with_licence(self) -> SortUnit:
        return replace(self, licensed=True)

    def with_second_thread(self) -> SortUnit:
        return replace(self, overlap=True)


def run_unit(unit: SortUnit) -> UnitResult:
    """Sort, read back. On any failure the files of this attempt are removed again.

    Raises ProofError when the outputs do not hold, CorruptDataError, UnavailableError (disk full).
    """
    table = unit.table
    writer = RollingWriter(
        table.reading.file_io,
        file_spec(unit, min(file.min_sequence_number for file in unit.files)),
        table.clock.now_ms,
    )
    try:
        with Scratch() as scratch:
            rows_in = _sort(unit, scratch, writer)
        written = tuple(replace(file, level=unit.output_level) for file in writer.close())
        files = numbered(unit, written)  # written as on level 0: append files are the same on every level
        outputs = _check(unit, [stored_file(unit, file) for file in files])
        inputs = tuple(tally(unit, number) for number in unit.checked)
    except BaseException:
        writer.abort()
        raise
    proof = UnitProof(unit=unit.name, outputs=outputs)
    return UnitResult(unit=unit.name, files=files, rows_in=rows_in, inputs=inputs, proof=proof)


def _sort(unit: SortUnit, scratch: Scratch, writer: RollingWriter) -> int:
    """Sort the rows and return how many are within the bounds."""
    sorter = RowSorter(scratch)
    rows_in = 0
    with closing(keyed_rows(unit)) as parts:
        for part in parts:
            count_rows(part.num_rows)
            rows_in += part.num_rows
            sorter.add(part)
    for batch in sorter.sorted():
        writer.write(batch)
    return rows_in


def keyed_rows(unit: SortUnit, columns: Sequence[str] | None = None) -> Generator[pa.RecordBatch]:
    """Yield live rows of the files within the bounds, with the keys they are sorted by; see
    `_read_batches`.
    """
    batches = _read_batches(unit, columns)
    with closing(prefetch(batches) if unit.overlap else batches) as batches_ahead:
        for batch in batches_ahead:
            yield _within(keyed(batch, unit.rule), unit.bounds)


def _read_batches(unit: SortUnit, columns: Sequence[str] | None) -> Generator[pa.RecordBatch]:
    """Yield live rows of the files. It costs reads of some footers, for the size of a batch. `columns` None:
    all.
    """
    reading = unit.table.reading
    paths = [reading.paths.data_file(unit.bucket_dir, file) for file in unit.files]
    sizes = sizes_for(1, len(unit.table.schema.fields), row_bytes(reading.file_io, paths))
    for file, deletion in zip(unit.files, unit.deletions, strict=True):
        deletions = None if deletion is None else load_deletions(reading.file_io, deletion)
        rows, size = FileRows(deletions=deletions), ReadSizes(sizes.batch_rows)
        yield from read_file(reading, unit.bucket_dir, file, columns, rows, size)


def _within(batch: pa.RecordBatch, bounds: tuple[Bound | None, Bound | None]) -> pa.RecordBatch:
    """Return the rows of a keyed batch that are between the bounds."""
    low, high = bounds
    if low is None and high is None:
        return batch
    keys = Keys.of([batch.column(name) for name in batch.schema.names if name.startswith(KEY_NAME)])
    inside = np.ones(batch.num_rows, bool)
    if low is not None:
        inside &= ~_before(keys, low)
    if high is not None:
        inside &= _before(keys, high)
    return batch if inside.all() else batch.filter(pa.array(inside))


def _before(keys: Keys, bound: Bound) -> Any:
    """Return which rows have a key below `bound`."""
    below, tied = np.zeros(len(keys), bool), np.ones(len(keys), bool)
    for column, value in zip(keys.columns, bound, strict=True):
        if isinstance(column, np.ndarray):
            less, same = column < value, column == value
        else:
            limit = pa.scalar(value, column.type)
            less = pc.less(column, limit).to_numpy(zero_copy_only=False)
            same = pc.equal(column, limit).to_numpy(zero_copy_only=False)
        below |= tied & less
        tied &= same
    return below


def _check(unit: SortUnit, outputs: list[StoredFile]) -> OutputEvidence:
    """Return the evidence of the outputs, read back: complete, in order, and with the ids of their rows where
    rows have any.
    """
    context = unit.table.proof
    checked = check_outputs(context, unit.name, outputs)
    fields = tuple(unit.table.schema.row_type.field(name) for name in unit.rule.columns)
    check_sorted(context, unit.name, outputs, unit.rule, fields, unit.bounds)
    if not unit.table.reading.options.row_tracking:
        return checked
    return replace(checked, rows=total(tally_tracked(context, unit.name, stored) for stored in outputs))


def tally(unit: SortUnit, number: int) -> Tally:
    """Return the tally of the live rows of a whole input."""
    context = unit.table.proof
    stored, deletion = stored_file(unit, unit.files[number]), unit.deletions[number]
    deleted = None if deletion is None else load_deletions(context.file_io, deletion)
    if unit.table.reading.options.row_tracking:
        return tally_tracked(context, unit.name, stored, deleted)
    return tally_input(context, unit.name, stored, deleted=deleted)


@dataclass(frozen=True, kw_only=True)
class SampleTask:
    """This task reads about `rows` rows of `files`, for the bounds of ranges."""

    table: UnitTable
    rule: SortRule
    bucket_dir: str
    files: tuple[DataFile, ...]
    rows: int


def sample(task: SampleTask) -> list[Bound]:
    """Return keys of rows at even distances, in order. It reads the columns of the rule only. Raises
    LakeError.
    """
    every = max(sum(file.row_count for file in task.files) // max(task.rows, 1), 1)
    return sorted(bound for file in task.files for bound in _sample(task, file, every))


def _sample(task: SampleTask, file: DataFile, every: int) -> Iterator[Bound]:
    position = 0
    for batch in read_file(task.table.reading, task.bucket_dir, file, task.rule.columns):
        places = np.arange(-position % every, batch.num_rows, every)
        position += batch.num_rows
        keys = task.rule.keys([column.take(pa.array(places)) for column in batch.columns])
        yield from zip(*(key.to_pylist() for key in keys), strict=True)
