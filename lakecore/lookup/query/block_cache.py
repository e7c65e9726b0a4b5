"""This module keeps blocks of lookup files in memory, up to a limit in bytes. The least recently used leave
first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

from lakecore.lookup.query.block import Block

__all__ = ["BlockCache", "BlockName"]

BlockName = tuple[int, int]
"""This names a block: the number of its file, and its number in the file."""


class BlockCache:
    """It has the blocks of all lookup files of a process. Several threads may use it."""

    def __init__(self, limit: int) -> None:
        """Begin empty. `limit` is in bytes; readers may hold some blocks more."""
        self._lock = threading.Lock()
        self._blocks: OrderedDict[BlockName, tuple[Block, int]] = OrderedDict()
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
        with self._lock:
            block = self._blocks.get(name)
            if block is None:
                return None
            self._blocks.move_to_end(name)
            return block[0]

    def get(self, name: BlockName, read: Callable[[], Block]) -> Block:
        """Return a block, by `read` if it is not in memory. Threads that need it at once may all read it."""
        block = self.find(name)
        if block is None:
            block = read()
            with self._lock:
                if name not in self._blocks:
                    self._blocks[name] = block, block.size
                    self._size += block.size
                    self._shrink()
        return block

    def drop(self, names: Iterable[BlockName]) -> None:
        """Forget these blocks."""
        with self._lock:
            for name in names:
                self._size -= self._blocks.pop(name, (None, 0))[1]

    def _shrink(self) -> None:
        while self._size > self._limit and self._blocks:
            self._size -= self._blocks.popitem(last=False)[1][1]
