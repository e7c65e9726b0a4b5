"""Covered columns of batches, and their tallies: with or without each row's place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakecore.metadata.row_kind import KEY_PREFIX, KIND_NAME, SEQUENCE_NAME
from lakecore.verify.digest import Tally, tally
from lakecore.verify.shape import RowShape

__all__ = ["covered_columns", "tally_rows"]

_POSITION_ID = -1


def tally_rows(columns: Sequence[pa.Array], shape: RowShape, first_row: int) -> Tally:
    """Count and digest of a batch. `first_row`: rows of the unit before it, where order counts."""
    if not shape.positional:
        return tally(columns, shape.field_ids)
    places = pa.array(np.arange(first_row, first_row + len(columns[0])))
    return tally([*columns, places], (*shape.field_ids, _POSITION_ID))


def covered_columns(batch: pa.RecordBatch, shape: RowShape) -> list[pa.Array]:
    """The covered columns of a key-value batch of the table's own types; thin batches have no key columns."""
    names = set(batch.schema.names)
    keys = [KEY_PREFIX + field.name for field in shape.key]
    stored = [key if key in names else key.removeprefix(KEY_PREFIX) for key in keys]
    wanted = [*stored, *(field.name for field in shape.values), SEQUENCE_NAME, KIND_NAME]
    return [batch.column(name) for name in wanted]
