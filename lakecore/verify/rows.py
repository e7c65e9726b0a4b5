"""Tallies of covered columns: with or without each row's place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakecore.verify.digest import Tally, tally
from lakecore.verify.shape import RowShape

__all__ = ["tally_rows"]

_POSITION_ID = -1


def tally_rows(columns: Sequence[pa.Array], shape: RowShape, first_row: int) -> Tally:
    """Count and digest of a batch. `first_row`: rows of the unit before it, where order counts."""
    if not shape.positional:
        return tally(columns, shape.field_ids)
    places = pa.array(np.arange(first_row, first_row + len(columns[0])))
    return tally([*columns, places], (*shape.field_ids, _POSITION_ID))
