"""This module extracts the covered columns of batches and tallies them, with or without each row's
position.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakecore.metadata.row_kind import KEY_PREFIX, KIND_NAME, SEQUENCE_NAME
from lakecore.verify.digest.digest import Tally, tally
from lakecore.verify.digest.shape import RowShape

__all__ = ["covered_columns", "tally_rows", "without_rows"]

_POSITION_ID = -1


def tally_rows(columns: Sequence[pa.Array], shape: RowShape, first_row: int) -> Tally:
    """Return count and digest of a batch. `first_row` counts the rows of the unit before it, where order
    matters.
    """
    if not shape.positional:
        return tally(columns, shape.field_ids)
    places = pa.array(np.arange(first_row, first_row + len(columns[0])))
    return tally([*columns, places], (*shape.field_ids, _POSITION_ID))


def covered_columns(batch: pa.RecordBatch, shape: RowShape) -> list[pa.Array]:
    """Return the covered columns of a key-value batch of the table's own types; thin batches have no key
    columns.
    """
    names = set(batch.schema.names)
    keys = [KEY_PREFIX + field.name for field in shape.key]
    stored = [key if key in names else key.removeprefix(KEY_PREFIX) for key in keys]
    column_names = [*stored, *(field.name for field in shape.values), SEQUENCE_NAME, KIND_NAME]
    return [batch.column(name) for name in column_names]


def without_rows(columns: Sequence[pa.Array], deleted: BitMap, start: int) -> list[pa.Array]:
    """Return a batch that begins at position `start` of its file, without the rows at `deleted` positions."""
    stop = start + len(columns[0])
    low, high = deleted.rank(start - 1) if start else 0, deleted.rank(stop - 1) if stop else 0
    if low == high:
        return list(columns)
    live = np.ones(stop - start, bool)
    live[np.array(deleted[low:high].to_array(), np.int64) - start] = False
    live_rows = pa.array(np.flatnonzero(live))
    return [column.take(live_rows) for column in columns]
