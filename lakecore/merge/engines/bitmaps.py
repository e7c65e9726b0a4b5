"""Aggregate function rbm32: the union of serialised roaring bitmaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakecore.errors import CorruptDataError
from lakecore.merge.engines.events import Events, Step
from lakecore.merge.engines.values import fold_values
from lakecore.merge.groups import Column
from lakecore.types.datatypes import AtomicType

__all__ = ["Bitmap32"]


@dataclass(frozen=True, slots=True)
class Bitmap32:
    """`field`: for messages. Bytes are those of other writers of the format: runs where these are smaller."""

    field: str
    type: AtomicType
    retracts: bool = False

    def fold(self, column: pa.Array, events: Events) -> Column:
        events = events.since_set()
        events = events.keep(events.valid(column))
        sizes = np.diff(events.starts)
        picks = events.picks(events.last_where(np.ones(len(events), bool)))
        single = column.take(pa.array(picks, mask=picks < 0))
        if not (sizes > 1).any():
            return single
        return fold_values(column, self.type, events, self._union, sizes > 1, single)

    def _union(self, step: Step, kept: Any, value: bytes) -> bytes:
        if kept is None:
            return value
        both = self._decoded(kept) | self._decoded(value)
        both.run_optimize()
        return bytes(both.serialize())

    def _decoded(self, value: bytes) -> BitMap:
        try:
            return BitMap.deserialize(value)
        except ValueError as err:
            raise CorruptDataError(
                f"field {self.field}", f"not a roaring bitmap of {len(value)} bytes"
            ) from err
