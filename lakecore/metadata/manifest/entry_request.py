"""This module defines what a caller needs of manifests, so that a reader may leave out the rest. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.byte_search import has_piece
from lakecore.data_class import dataclass
from lakecore.metadata.manifest.block_spans import GroupBlocks

__all__ = ["WHOLE", "EntryRequest", "PartitionMask"]

PartitionMask: TypeAlias = Callable[[Sequence[bytes]], npt.NDArray[np.bool_]]
"""The type of a function that tells which of some serialised partitions are wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRequest:
    """These are the entries and columns that a caller needs. A reader may give more: the caller still has
    to select.
    """

    keys: bool = False
    """It tells whether the lowest and highest keys of files are asked for; `ManifestEntries.keys` is slow
    without.
    """
    partitions: PartitionMask | None = None
    """These are the partitions whose entries are needed; None for all."""
    pieces: tuple[tuple[bytes, ...], ...] = ()
    """Of each tuple, every wanted partition has one of the byte strings in its serialised row."""

    blocks: GroupBlocks | None = None
    """No other block of the manifests that it knows has a wanted entry."""

    def may_hold(self, data: bytes | bytearray, end: int | None = None) -> bool:
        """Return whether the records of a block, or of several, can have a wanted partition. `end` is where
        they end in `data`. It costs a search (5 GB/s or more).
        """
        return all(any(has_piece(data, piece, end) for piece in pieces) for pieces in self.pieces)


WHOLE = EntryRequest()
