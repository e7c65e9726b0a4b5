"""This module keeps blocks of lookup files in memory, up to a limit in bytes. Those leave first that were not
used since the last search for one to leave (the CLOCK algorithm), so that a block is found without a lock.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

from lakecore.lookup.query.block import Block

__all__ = ["BlockCache", "BlockName"]

BlockName = tuple[int, int]
"""This names a block: the number of its file, and its number in the file."""


class _Slot:
    """It is a block in memory."""

    __slots__ = ("block", "is_used", "size")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.size = block.size
        self.is_used = True


class BlockCache:
    """It has the blocks of all lookup files of a process. Several threads may use it."""

    def __init__(self, limit: int) -> None:
        """Begin empty. `limit` is in bytes; readers may hold some blocks more."""
        self._lock = threading.Lock()
        self._blocks: OrderedDict[BlockName, _Slot] = OrderedDict()
        self._limit = limit
        self._size = 0

    @property
    def size(self) -> int:
        """Return the bytes of all blocks."""
        return self._size

    def limit_to(self, limit: int) -> None:
        """Set the highest number of bytes."""
        with self._lock:
            self._limit = limit
            self._shrink()

    def find(self, name: BlockName) -> Block | None:
        """Return a block if it is in memory."""
        slot = self._blocks.get(name)
        if slot is None:
            return None
        slot.is_used = True
        return slot.block

    def get(self, name: BlockName, read: Callable[[], Block]) -> Block:
        """Return a block, by `read` if it is not in memory. Threads that need it at once may all read it."""
        block = self.find(name)
        if block is None:
            block = read()
            with self._lock:
                if name not in self._blocks:
                    slot = self._blocks[name] = _Slot(block)
                    self._size += slot.size
                    self._shrink()
        return block

    def drop(self, names: Iterable[BlockName]) -> None:
        """Forget these blocks."""
        with self._lock:
            for name in names:
                slot = self._blocks.pop(name, None)
                self._size -= 0 if slot is None else slot.size

    def _shrink(self) -> None:
        while self._size > self._limit and self._blocks:
            name, slot = self._blocks.popitem(last=False)
            if slot.is_used:
                slot.is_used = False
                self._blocks[name] = slot
            else:
                self._size -= slot.size
