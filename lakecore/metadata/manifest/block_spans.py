"""This module keeps where in manifests the entries of buckets lie, so that one group of buckets after the
other is read without the blocks of the others. It is pure.

A manifest never changes under its name, so that what is known of its blocks stays true. Of a manifest that is
not known every block counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass

__all__ = ["BlockSpans", "GroupBlocks"]

I64: TypeAlias = npt.NDArray[np.int64]
Span: TypeAlias = tuple[I64, I64]

_LIMITS = np.iinfo(np.int64)


class BlockSpans:
    """It has the least and the greatest number of the entries of each block, by the name of the manifest. It
    takes 16 bytes a block.
    """

    def __init__(self) -> None:
        self._spans: dict[str, Span] = {}

    def add(self, parts: Iterable[tuple[str, I64, I64]]) -> None:
        """Add the least and the greatest numbers in the blocks of manifests, each given with its name. Blocks
        of one manifest may come in several parts.
        """
        for name, low, high in parts:
            earlier = self._spans.get(name)
            if earlier is not None:
                low, high = np.minimum(earlier[0], low), np.maximum(earlier[1], high)
            self._spans[name] = low, high

    def blocks_of(self, low: int, high: int) -> GroupBlocks:
        """Return the blocks that can have an entry with a number from `low` to `high`."""
        return GroupBlocks(self._spans, low, high)

    @staticmethod
    def of_blocks(count: int, block: npt.NDArray[Any], numbers: I64) -> Span:
        """Return the least and the greatest of the `numbers` of entries in each of `count` blocks, where
        entry i lies in block `block[i]`. Of a block without entries the least is greater than the greatest.
        """
        low, high = np.full(count, _LIMITS.max), np.full(count, _LIMITS.min)
        np.minimum.at(low, block, numbers)
        np.maximum.at(high, block, numbers)
        return low, high


@dataclass(frozen=True, slots=True, eq=False)
class GroupBlocks:
    """These are the blocks that can have an entry of a group. It pickles without the manifests that have
    none; there these count as not known.
    """

    spans: dict[str, Span]
    low: int
    high: int

    def of(self, path: str) -> npt.NDArray[np.bool_] | None:
        """Return which blocks of a manifest are wanted, or None where that is not known."""
        span = self.spans.get(path.rpartition("/")[2])
        return None if span is None else (span[0] <= self.high) & (span[1] >= self.low)

    def __reduce__(self) -> tuple[Any, ...]:
        spans = {name: span for name, span in self.spans.items() if bool(np.any(self.of(name)))}
        return GroupBlocks, (spans, self.low, self.high)
