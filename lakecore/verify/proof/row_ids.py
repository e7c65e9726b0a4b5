"""The proof of row ids and sequence numbers through a compaction: what was read, in order, is what was
written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lakecore.errors import ProofError
from lakecore.format.data_reader import open_reader
from lakecore.fs.file_io import FileIO
from lakecore.metadata.row_kind import ROW_ID_FIELD_ID, ROW_ID_NAME, SEQUENCE_FIELD_ID, SEQUENCE_NAME
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.digest import ZERO, Tally, tally
from lakecore.verify.digest.rows import without_rows

__all__ = ["prove_row_ids", "read_ids"]

_POSITION_ID = -1
Ids = npt.NDArray[np.int64]


def prove_row_ids(
    file_io: FileIO,
    unit: str,
    inputs: Sequence[tuple[StoredFile, BitMap | None]],
    outputs: Sequence[StoredFile],
) -> None:
    """Raise ProofError naming `unit` unless the live rows of `inputs`, in order, are those of `outputs`, by
    id and sequence number. The bitmaps hold deleted positions.
    """
    before, after = ZERO, ZERO
    for stored, deleted in inputs:
        before = _tally(file_io, unit, stored, deleted, before)
    for stored in outputs:
        after = _tally(file_io, unit, stored, None, after)
    if before != after:
        raise ProofError(
            unit, f"the row ids of its inputs are {before}, but those of its outputs are {after}"
        )


def _tally(file_io: FileIO, unit: str, stored: StoredFile, deleted: BitMap | None, sum_: Tally) -> Tally:
    position = 0
    for columns in read_ids(file_io, unit, stored):
        count = len(columns[0])
        live = columns if deleted is None else without_rows(columns, deleted, position)
        position += count
        places = pa.array(np.arange(sum_.rows, sum_.rows + len(live[0])))
        sum_ += tally([*live, places], (ROW_ID_FIELD_ID, SEQUENCE_FIELD_ID, _POSITION_ID))
    return sum_


def read_ids(file_io: FileIO, unit: str, stored: StoredFile) -> Iterator[list[pa.Array]]:
    """Yield ids and sequence numbers, batch by batch: stored, or by the rule of the format."""
    file = stored.file
    reader = open_reader(file_io, stored.path)
    try:
        names = [name for name in (ROW_ID_NAME, SEQUENCE_NAME) if name in reader.schema.names]
        position = 0
        for batch in reader.batches(names or reader.schema.names[:1]):
            places = np.arange(position, position + batch.num_rows, dtype=np.int64)
            position += batch.num_rows
            first = file.first_row_id
            ids = None if first is None else places + first
            numbers = np.full(batch.num_rows, file.max_sequence_number, np.int64)
            yield [
                _fill(batch, ROW_ID_NAME, ids, unit, stored),
                _fill(batch, SEQUENCE_NAME, numbers, unit, stored),
            ]
    finally:
        reader.close()


def _fill(batch: pa.RecordBatch, name: str, otherwise: Ids | None, unit: str, stored: StoredFile) -> pa.Array:
    if name not in batch.schema.names:
        if otherwise is None:
            raise ProofError(unit, f"{stored.path} has no row ids")
        return pa.array(otherwise)
    column = batch.column(name)
    if not column.null_count:
        return column
    if otherwise is None:
        raise ProofError(unit, f"{stored.path} has rows without row ids")
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(np.where(is_valid, column.fill_null(0).to_numpy(), otherwise))
