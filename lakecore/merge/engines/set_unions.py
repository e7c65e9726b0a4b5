"""Aggregate functions whose values are serialised sets: rbm32, rbm64, hll_sketch, theta_sketch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.merge.engines.events import Events, Step
from lakecore.merge.engines.values import fold_values
from lakecore.merge.groups import Column
from lakecore.row.roaring.bitmap32 import decode_roaring, encode_roaring
from lakecore.types.datatypes import AtomicType

__all__ = ["SetUnion", "union32"]


@dataclass(frozen=True, slots=True)
class SetUnion:
    """It unites serialised sets. `unite(older, newer, name)` returns the bytes of the union; `field` is
    the name for messages.

    A key with one value keeps its bytes. Cost: one union a value, as many as a key has.
    """

    field: str
    type: AtomicType
    unite: Callable[[bytes, bytes, str], bytes]
    retracts: bool = False

    def fold(self, column: pa.Array, events: Events) -> Column:
        events = events.settled.with_value(column)
        sizes = np.diff(events.starts)
        picks = events.picks(events.last_where(np.ones(len(events), bool)))
        single = column.take(pa.array(picks, mask=picks < 0))
        if not (sizes > 1).any():
            return single
        return fold_values(column, self.type, events, self._step, sizes > 1, single)

    def _step(self, step: Step, state: Any, value: bytes) -> bytes:
        if state is None:
            return value
        older, newer = (value, state) if step is Step.OLDER else (state, value)
        return self.unite(older, newer, f"field {self.field}")


def union32(older: bytes, newer: bytes, path: str) -> bytes:
    """Return the union of 32-bit bitmaps, with runs where these are smaller. Raises CorruptDataError naming
    `path`.
    """
    return encode_roaring(decode_roaring(older, 0, path)[0] | decode_roaring(newer, 0, path)[0])
