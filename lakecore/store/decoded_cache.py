"""Small metadata files that were decoded already, for processes that plan the same tables again and again.

Storage is asked every time: what counts is the bytes that were read just now, so damage, a lost file or
another storage under the same path are seen. Only the decoding of the same bytes is spared.
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
    """Values by path, the least recently used leave first. Holds values of up to `most` items together, and
    the bytes they come from, of which some hundreds count as an item. Safe to use from many threads.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._known: OrderedDict[str, tuple[bytes, T]] = OrderedDict()
        self._lock = Lock()

    def of(self, data: bytes, path: str, decode: Callable[[bytes, str], T]) -> T:
        """`decode(data, path)`, or what that gave before: nobody may change it. Raises what `decode` does."""
        with self._lock:
            before = self._known.get(path)
            if before is not None and before[0] == data:
                self._known.move_to_end(path)
                return before[1]
        value = decode(data, path)
        with self._lock:
            before = self._known.pop(path, None)
            self._count += _weight(data, value) - (0 if before is None else _weight(*before))
            self._known[path] = data, value
            while self._count > self._most:
                self._count -= _weight(*self._known.popitem(last=False)[1])
        return value


def _weight(data: bytes, value: Sized) -> int:
    return 1 + len(value) + len(data) // _ITEM_BYTES
