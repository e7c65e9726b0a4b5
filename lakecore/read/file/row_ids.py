"""This module has the row ids and sequence numbers of rows in tables that track rows.

Rule of the format: files of a compaction store both; elsewhere, and where a stored value is null, the id is
the file's first one plus the row's position, the sequence number the file's highest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.errors import UnsupportedError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.row_kind import ROW_ID_FIELD_ID, ROW_ID_NAME, SEQUENCE_FIELD_ID, SEQUENCE_NAME
from lakecore.types.datatypes import AtomicType, DataField, RowType, TypeRoot

__all__ = ["TRACKING_NAMES", "tracked_type", "with_positions", "with_row_ids"]

TRACKING_NAMES = (ROW_ID_NAME, SEQUENCE_NAME)


def tracked_type(row_type: RowType, *, nullable: bool = True) -> RowType:
    """Return a row type with `_ROW_ID` and `_SEQUENCE_NUMBER` behind its columns, as a compaction stores
    them.
    """
    kind = AtomicType(TypeRoot.BIGINT, nullable=nullable)
    ids = DataField(ROW_ID_FIELD_ID, ROW_ID_NAME, kind), DataField(SEQUENCE_FIELD_ID, SEQUENCE_NAME, kind)
    return RowType((*row_type.fields, *ids), nullable=row_type.nullable)


def with_positions(
    batches: Iterator[pa.RecordBatch], sizes: Sequence[int] | None, groups: Sequence[int] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches with the position of each row in its file as a last column.

    `sizes` are the rows of each row group; None where a file is read from its beginning. `groups` are those
    that are read, None for all.
    """
    if sizes is None or groups is None:
        ranges = iter([(0, 1 << 62)])
    else:
        starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        ranges = iter([(starts[group], starts[group + 1]) for group in groups])
    low = high = 0
    for batch in batches:
        parts, missing = [], batch.num_rows
        while missing:
            if low == high:
                low, high = next(ranges)
            count = min(missing, high - low)
            parts.append(np.arange(low, low + count, dtype=np.int64))
            low += count
            missing -= count
        places = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        yield batch.append_column("", pa.array(places))


def with_row_ids(batch: pa.RecordBatch, file: DataFile, path: str, positions: pa.Array) -> pa.RecordBatch:
    """Return `batch` with the values that its columns `_ROW_ID` and `_SEQUENCE_NUMBER` leave null.

    Raises UnsupportedError for a file without row ids.
    """
    for name in TRACKING_NAMES:
        at = batch.schema.get_field_index(name)
        if at < 0 or not batch.column(at).null_count:
            continue
        if name == SEQUENCE_NAME:
            missing: pa.Array | pa.Scalar = pa.scalar(file.max_sequence_number, pa.int64())
        elif file.first_row_id is None:
            raise UnsupportedError(
                f"{path}: its rows have no row ids, although the table tracks rows: an older Paimon wrote "
                "them; read the table itself, and overwrite it with its rows: new files get ids"
            )
        else:
            missing = pc.add(positions, pa.scalar(file.first_row_id, pa.int64()))
        batch = batch.set_column(at, batch.schema.field(at), pc.coalesce(batch.column(at), missing))
    return batch
