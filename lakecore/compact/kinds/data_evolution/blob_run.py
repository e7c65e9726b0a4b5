"""This module runs one unit of a compaction that joins blob files of a column: it copies the value that
counts of each row.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np

from lakecore.compact.engine.outputs import file_spec, stored
from lakecore.compact.engine.work import UnitResult, UnitTable
from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.row_range import first_row
from lakecore.read.columns.blob_values import locate_blobs
from lakecore.read.file.column_sources import field_ids
from lakecore.verify.digest.file_tally import FileTally
from lakecore.verify.proof.blobs import check_blob_output, tally_blobs
from lakecore.verify.proof.pick_proof import UnitProof
from lakecore.write.files.dedicated_files import BlobFiles

__all__ = ["BlobUnit", "run_blobs"]

_ONE_FILE = 1 << 62


@dataclass(frozen=True, kw_only=True)
class BlobUnit:
    """This unit joins `files`, which together have all rows from the first of the first file on.

    Values of deleted rows stay: the rows keep their places. `file_prefix` is as in other units.
    """

    name: str
    table: UnitTable
    bucket_dir: str
    files: tuple[DataFile, ...]
    file_prefix: str

    @property
    def first(self) -> int:
        return min(map(first_row, self.files))

    @property
    def output_level(self) -> int:
        return 0

    @property
    def rows(self) -> int:
        return max(first_row(file) + file.row_count for file in self.files) - self.first

    def with_second_thread(self) -> BlobUnit:
        return self


def run_blobs(unit: BlobUnit) -> UnitResult:
    """Copy, read back. On any failure the file of this attempt is removed again.

    It reads each value twice and writes it once; holds 20 bytes a row, and 1 MB of a value. Raises ProofError
    when the output does not hold, NotFoundError, CorruptDataError, UnavailableError.
    """
    table = unit.table
    reading = table.reading
    column = next(iter(field_ids(reading, unit.files[0])))
    field = next(one for one in reading.schema.fields if one.id == column)
    inputs = [stored(unit, file) for file in unit.files]
    inputs_by_path = [(one.path, one.file) for one in inputs]
    blobs = locate_blobs(reading.file_io, field, inputs_by_path, unit.first, unit.rows)
    writer = BlobFiles(
        reading.file_io, file_spec(unit, 0), table.clock.now_ms, field.name, _ONE_FILE, count().__next__
    )
    try:
        for record in blobs.records(np.arange(unit.rows)):
            writer.write_record(record)
        file = _describe(unit, writer.close())
        outputs = check_blob_output(table.proof, unit.name, stored(unit, file), unit.first, field.id)
        before = tally_blobs(table.proof, unit.name, inputs, unit.first, unit.rows, field.id)
        if before != outputs.rows:
            raise ProofError(
                unit.name, f"its inputs contain {before}, but its output contains {outputs.rows}"
            )
    except BaseException:
        writer.abort()
        raise
    return UnitResult(
        unit=unit.name,
        files=(file,),
        rows_in=unit.rows,
        inputs=(
            FileTally(before.rows, before.digest, unit.files[:1]),
            *(FileTally(0, 0, (file,)) for file in unit.files[1:]),
        ),
        proof=UnitProof(unit=unit.name, outputs=outputs),
    )


def _describe(unit: BlobUnit, files: tuple[DataFile, ...]) -> DataFile:
    """Return the new file. Rule of the format: it takes over row ids, and the oldest and newest sequence
    number.
    """
    (file,) = files
    low = min(file.min_sequence_number for file in unit.files)
    high = max(file.max_sequence_number for file in unit.files)
    return replace(file, first_row_id=unit.first, min_sequence_number=low, max_sequence_number=high)
