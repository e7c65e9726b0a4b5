"""Numbers as bit slices: bitmap i holds the rows whose number has bit i set. Comparing is set algebra."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

__all__ = ["Slices", "add_bits"]


@dataclass(frozen=True, slots=True)
class Slices:
    """`rows`: those that have a number (0 or more). `slices`: lowest bit first."""

    rows: BitMap
    slices: Sequence[BitMap]

    def equal(self, value: int) -> BitMap:
        if value < 0 or value >> len(self.slices):
            return BitMap()
        found = self.rows.copy()
        for i, rows in enumerate(self.slices):
            found = found & rows if value >> i & 1 else found - rows
        return found

    def below(self, value: int) -> BitMap:
        """Rows with a number less than `value`."""
        if value <= 0:
            return BitMap()
        if value >> len(self.slices):
            return self.rows.copy()
        less, same = BitMap(), self.rows.copy()
        for i in range(len(self.slices) - 1, -1, -1):
            if value >> i & 1:
                less |= same - self.slices[i]
                same &= self.slices[i]
            else:
                same -= self.slices[i]
        return less

    def within(self, low: int, high: int) -> BitMap:
        """Rows with a number from `low` to `high`, both included."""
        return self.below(high + 1) - self.below(low)


def add_bits(slices: Sequence[BitMap], rows: npt.NDArray[np.uint32], numbers: npt.NDArray[np.uint64]) -> None:
    """Add rows with their numbers; there is a slice for every bit that occurs."""
    for i, bitmap in enumerate(slices):
        wanted = rows[(numbers >> np.uint64(i) & np.uint64(1)).astype(bool)]
        if len(wanted):
            bitmap |= BitMap(wanted)
