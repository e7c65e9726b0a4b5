"""This module caches decoded small metadata files, for processes that plan the same tables again and
again.

Storage is asked every time: only the bytes that were read just now count, so damage, a lost file or
another storage under the same path are noticed. Only the decoding of equal bytes is skipped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sized
from threading import Lock
from typing import Generic, TypeVar

__all__ = ["DecodedCache"]

T = TypeVar("T", bound=Sized)
_ITEM_BYTES = 256


class DecodedCache(Generic[T]):
    """This cache holds values by path and evicts the least recently used. It is thread-safe.

    It holds values of up to `most` items together, and the bytes they come from, of which some hundreds
    count as an item.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._entries: OrderedDict[str, tuple[bytes, T]] = OrderedDict()
        self._lock = Lock()

    def of(self, data: bytes, path: str, decode: Callable[[bytes, str], T]) -> T:
        """Return `decode(data, path)`, or the earlier result for equal bytes, which nobody may change. It
        raises what `decode` raises.
        """
        with self._lock:
            before = self._entries.get(path)
            if before is not None and before[0] == data:
                self._entries.move_to_end(path)
                return before[1]
        value = decode(data, path)
        with self._lock:
            before = self._entries.pop(path, None)
            self._count += _weight(data, value) - (0 if before is None else _weight(*before))
            self._entries[path] = data, value
            while self._count > self._most:
                self._count -= _weight(*self._entries.popitem(last=False)[1])
        return value


def _weight(data: bytes, value: Sized) -> int:
    return 1 + len(value) + len(data) // _ITEM_BYTES
