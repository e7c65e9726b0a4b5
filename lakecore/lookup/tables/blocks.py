"""This module stores blocks of bytes that belong to one process: in memory, or in a file without a name.

The file has no name, so that nothing is left of it when the process ends, also when it is killed, and no
other process can change it. Each block has a checksum, which is compared whenever the block is read.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable
from typing import IO, Any, Generic, TypeVar

import pyarrow as pa

from lakecore.errors import CorruptDataError, UnavailableError, reason

__all__ = ["BlockCache", "BlockStore", "DamagedBlockError"]

T = TypeVar("T")
_serials = itertools.count()


class DamagedBlockError(CorruptDataError):
    """A local block has other bytes than were written. The table in the lake is not damaged."""


class BlockStore:
    """It is written once, block by block, and then read. Several threads may read it."""

    def __init__(self, directory: str | None) -> None:
        """Store blocks in a file in `directory`, or in memory for None.

        Raises UnavailableError if no file can be created there.
        """
        self.serial = next(_serials)
        """This number is unique in the process: no later store has it."""
        self._memory: list[pa.Buffer] = []
        self._file: IO[bytes] | None = None
        self._places: list[tuple[int, int, int]] = []
        self._end = 0
        if directory is not None:
            try:
                self._file = tempfile.TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115 - kept open
            except OSError as err:
                raise UnavailableError(
                    f"directory {directory} for the rows of a lookup table: {reason(err)}; name another "
                    f"directory"
                ) from err
        self._directory = directory

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self._file.close()  # type: ignore[union-attr] # it was compared with None

    def __len__(self) -> int:
        return len(self._places) if self._file is not None else len(self._memory)

    @property
    def size(self) -> int:
        """Return the bytes of all blocks."""
        return self._end

    def append(self, block: Any) -> int:
        """Write a block of bytes and return its number. Raises UnavailableError for a full disk."""
        buffer = pa.py_buffer(block)
        self._end += buffer.size
        if self._file is None:
            self._memory.append(buffer)
            return len(self._memory) - 1
        start = self._end - buffer.size
        view = memoryview(buffer)
        try:
            while view:
                view = view[os.pwrite(self._file.fileno(), view, self._end - len(view)) :]
        except OSError as err:
            raise UnavailableError(
                f"the rows of a lookup table cannot be stored in {self._directory}: {reason(err)}; "
                "free some space there, or name another directory"
            ) from err
        self._places.append((start, buffer.size, zlib.crc32(buffer)))
        return len(self._places) - 1

    def read(self, number: int) -> pa.Buffer:
        """Return a block. Raises DamagedBlockError if its bytes are not those that were written."""
        if self._file is None:
            return self._memory[number]
        start, size, checksum = self._places[number]
        parts: list[bytes] = []
        size_left = size
        try:
            while size_left and (part := os.pread(self._file.fileno(), size_left, start + size - size_left)):
                parts.append(part)
                size_left -= len(part)
        except OSError as err:
            raise UnavailableError(f"block {number} of a lookup table cannot be read: {reason(err)}") from err
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if len(data) != size or zlib.crc32(data) != checksum:
            raise DamagedBlockError(
                self._directory or "memory",
                f"block {number} of a lookup table has other bytes than were written; check the disk",
            )
        return pa.py_buffer(data)


class BlockCache(Generic[T]):
    """It keeps decoded blocks up to a number of bytes; those that were not used for the longest time go
    first.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._blocks: OrderedDict[tuple[int, int], tuple[T, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """Return the bytes of the blocks that are kept."""
        return self._bytes

    def get(self, store: BlockStore, number: int, load: Callable[[], tuple[T, int]]) -> T:
        """Return block `number` of a store. `load` returns the block, decoded, and its size in bytes."""
        key = (store.serial, number)
        with self._lock:
            if (block := self._blocks.get(key)) is not None:
                self._blocks.move_to_end(key)
                return block[0]
        value, size = load()
        with self._lock:
            if key not in self._blocks:
                self._blocks[key] = (value, size)
                self._bytes += size
            while self._bytes > self._most and len(self._blocks) > 1:
                self._bytes -= self._blocks.popitem(last=False)[1][1]
        return value

    def drop(self, store: BlockStore) -> None:
        """Forget the blocks of a store."""
        with self._lock:
            for number in range(len(store)):
                if (block := self._blocks.pop((store.serial, number), None)) is not None:
                    self._bytes -= block[1]
