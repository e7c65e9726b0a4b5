"""This module runs one unit of a compaction that joins columns: rows of neighbouring ranges become one
file of all columns.
"""

from __future__ import annotations

from dataclasses import replace

from pyroaring import BitMap

from lakecore.compact.engine.outputs import file_spec
from lakecore.compact.engine.outputs import stored as stored_file
from lakecore.compact.engine.work import UnitResult, UnitTable
from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.executor import count_rows
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.metadata.manifest.row_range import first_row, row_ranges
from lakecore.read.split.joined_rows import JoinedRows, read_joined
from lakecore.store.indexes import load_deletions
from lakecore.verify.digest.file_tally import FileTally
from lakecore.verify.proof.joined import check_columns, tally_columns
from lakecore.verify.proof.pick_proof import UnitProof, check_outputs
from lakecore.write.files.rolling import FileSpec, RollingWriter

__all__ = ["ColumnMergeUnit", "run_unit"]

_ONE_FILE = 1 << 62


@dataclass(frozen=True, kw_only=True)
class ColumnMergeUnit:
    """This unit joins `files`, of row ranges that follow one another without a gap.

    `columns` are those of the new file, None for all. `deletions` are in the order of `files`; deleted rows
    stay in the new file, and are reported as its. `file_prefix` begins the names of new files; the unit adds
    the attempt.
    """

    name: str
    table: UnitTable
    bucket_dir: str
    files: tuple[DataFile, ...]
    deletions: tuple[DeletionFile | None, ...]
    columns: tuple[str, ...] | None
    file_prefix: str

    @property
    def output_level(self) -> int:
        return 0

    @property
    def rows(self) -> int:
        return sum(rows.count for rows in row_ranges(self.files))

    def with_second_thread(self) -> ColumnMergeUnit:
        return self


def run_unit(unit: ColumnMergeUnit) -> UnitResult:
    """Join, read back. On any failure the files of this attempt are removed again.

    Raises ProofError when the outputs do not hold, CorruptDataError, UnavailableError.
    """
    table = unit.table
    writer = RollingWriter(table.reading.file_io, _file_spec(unit), table.clock.now_ms)
    try:
        rows_in = 0
        names = table.schema.row_type.names if unit.columns is None else unit.columns
        for batch in read_joined(
            table.reading, unit.bucket_dir, unit.files, names, JoinedRows(as_stored=True)
        ):
            count_rows(batch.num_rows)
            rows_in += batch.num_rows
            writer.write(batch)
        files = _describe(unit, writer.close())
        stored = [stored_file(unit, file) for file in files]
        outputs = check_outputs(table.proof, unit.name, stored)
        outputs = replace(outputs, rows=tally_columns(table.proof, unit.name, [[file] for file in stored]))
        ranges = [[stored_file(unit, file) for file in rows.files] for rows in row_ranges(unit.files)]
        inputs = tally_columns(table.proof, unit.name, ranges)
        check_columns(table.proof, unit.name, [file for rows in ranges for file in rows], stored)
        deleted = (
            {files[0].file_name: deleted_rows.serialize()}
            if (deleted_rows := _deleted_positions(unit))
            else {}
        )
    except BaseException:
        writer.abort()
        raise
    proof = UnitProof(unit=unit.name, outputs=outputs)
    tallies = (
        FileTally(inputs.rows, inputs.digest, unit.files[:1]),
        *(FileTally(0, 0, (file,)) for file in unit.files[1:]),
    )
    return UnitResult(
        unit=unit.name, files=files, rows_in=rows_in, inputs=tallies, proof=proof, lookups=deleted
    )


def _deleted_positions(unit: ColumnMergeUnit) -> BitMap:
    """Return the positions in the new file of the rows that are deleted in the old ones."""
    first = min(map(first_row, unit.files))
    moved, count = BitMap(), 0
    for file, vector in zip(unit.files, unit.deletions, strict=True):
        if vector is not None:
            rows = load_deletions(unit.table.reading.file_io, vector)
            count += len(rows)
            moved |= rows.shift(first_row(file) - first)
    if len(moved) != count or (moved and moved.max() >= unit.rows):
        raise ProofError(
            unit.name,
            f"its deletion vectors delete {count} rows, but only {len(moved)} of them are different rows "
            "of the unit",
        )
    return moved


def _describe(unit: ColumnMergeUnit, files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
    """Return the new files. Rule of the format: they take over row ids, and the oldest and newest sequence
    number.
    """
    first = min(file.first_row_id or 0 for file in unit.files)
    low = min(file.min_sequence_number for file in unit.files)
    high = max(file.max_sequence_number for file in unit.files)
    return tuple(
        replace(file, first_row_id=first, min_sequence_number=low, max_sequence_number=high) for file in files
    )


def _file_spec(unit: ColumnMergeUnit) -> FileSpec:
    """Return the specification of one file, whose rows have the ids and numbers of the range, which
    `_described` adds.
    """
    return replace(file_spec(unit, 0), target_size=_ONE_FILE, columns=unit.columns, tracked=False)
