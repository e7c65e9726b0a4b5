"""This module has the cache of lookup files: the local copies of data files that all queries of a process
share.

Limits are options of tables. Where several queries are open, the smallest of each limit holds for the cache
as a whole; a query that needs other limits gets a cache of its own. The least recently used copies leave
first (about so: a copy is found without a lock, and takes its place in the order when one is to leave); a
copy that is larger than the limit exists as long as it is used. Copies that no query has any more are removed
at once, those that were not used for `lookup.cache-file-retention` when the cache is next used.

A cache may share its copies with other processes (`lakecore.lookup.copies`). Then the limit on disk holds for
all of them together, copies stay when nobody has them any more, and one that another process removed is given
up at the next look.
"""

from __future__ import annotations

import itertools
import resource
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import field

from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnavailableError
from lakecore.lookup.copies.local_copies import OwnCopies, SharedCopies
from lakecore.lookup.copies.source import CopySource
from lakecore.lookup.query.block_cache import BlockCache
from lakecore.lookup.query.cache_options import CacheOptions
from lakecore.lookup.query.lookup_file import LookupFile

__all__ = ["LookupCache"]

_TOUCH_MS = 60_000
"""A shared copy is marked as used about so often, or four times in the time of its retention."""
_TIDY_MS = 60_000
"""Shared directories are tidied after so long, also if no copy is made."""


@dataclass(slots=True)
class _Entry:
    """One copy, or one that is being made."""

    making: threading.Lock = field(default_factory=threading.Lock)
    file: LookupFile | None = None
    holders: set[int] = field(default_factory=set)
    used_ms: int = 0
    placed_ms: int = 0
    """It is `used_ms` as it was when the entry took its place in the order of use."""
    touched_ms: int = 0
    """It is `used_ms` as other processes know it."""


class LookupCache:
    """It makes, keeps and removes local copies. Several threads may use it."""

    def __init__(
        self, directories: Sequence[str] = (), *, shared: bool = False, clock: Clock | None = None
    ) -> None:
        """Keep copies below these directories, without any below that of TMPDIR.

        They are in directories of this process, which are made when the first copy is and removed at the end.
        With `shared` they are in one of this user, `lakecore-shared-lookup-…`: processes with the same
        directories make a copy once, and find it again when they start anew.
        """
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._limits: dict[int, CacheOptions] = {}
        self._numbers = itertools.count()
        self._own = OwnCopies(() if shared else directories)
        self._shared = SharedCopies(directories, self._clock) if shared else None
        self._tidied_ms = 0
        self._blocks = BlockCache(0)
        self._size = 0
        self._writers = 0
        self._retention_ms = 0
        self._touch_ms = 0
        self._most = max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)

    @property
    def disk_size(self) -> int:
        """Return the bytes of all copies on disk that this process has."""
        return self._size

    @property
    def copies_written(self) -> int:
        """Return the number of copies that this process has written, not found."""
        return self._own.written + (0 if self._shared is None else self._shared.written)

    @property
    def memory_size(self) -> int:
        """Return the bytes of all blocks in memory."""
        return self._blocks.size

    def join(self, options: CacheOptions) -> int:
        """Return the number of a new holder, whose limits count from now on."""
        with self._lock:
            number = next(self._numbers)
            self._limits[number] = options
            self._limit()
        self._tidy(self._clock.now_ms())
        return number

    def leave(self, holder: int) -> None:
        """Remove a holder, and the copies that nobody else has."""
        with self._lock:
            if self._limits.pop(holder, None) is None:
                return
            self.release(holder, list(self._entries))
            if self._limits:
                self._limit()
            else:
                self._close_disk()

    def file(self, holder: int, name: Hashable, source: CopySource) -> LookupFile:
        """Return the copy of that name; the first who asks makes it, others wait for it.

        Raises UnavailableError when the local disk is full even without all other copies, and what reading
        the data file raises.
        """
        with self._lock:
            if holder not in self._limits:
                raise InvalidInputError("the query was closed during a lookup; create a new one")
            entry = self._entries.get(name)
            if entry is None:
                entry = self._entries[name] = _Entry()
            entry.holders.add(holder)
            entry.used_ms = entry.placed_ms = self._clock.now_ms()
            self._entries.move_to_end(name)
            self._remove_unused(entry.used_ms)
            if entry.file is not None:
                self._touch(entry)
                if entry.used_ms - self._tidied_ms >= _TIDY_MS:
                    self._tidy(entry.used_ms)
                return entry.file
        with entry.making:
            if entry.file is None:
                copy = self._make(source)
                with self._lock:
                    entry.file = copy
                    if self._entries.get(name) is not entry:  # it was released meanwhile
                        copy.remove()
                        return copy
                    self._size += copy.size
                    self._shrink(entry)
                self._tidy(entry.used_ms, copy.stored.path)
            return entry.file

    def find(self, holder: int, name: Hashable) -> LookupFile | None:
        """Return the copy of that name if it is there and the holder has it; nothing is made."""
        entry = self._entries.get(name)
        if entry is None or holder not in entry.holders:
            return None
        entry.used_ms = self._clock.now_ms()
        self._touch(entry)
        return entry.file

    def discard(self, file: LookupFile) -> None:
        """Remove a copy that is damaged: who asks next makes it again."""
        with self._lock:
            for name in [name for name, entry in self._entries.items() if entry.file is file]:
                self._remove(name)
        file.discard()

    def release(self, holder: int, names: Iterable[Hashable]) -> None:
        """Say that a holder needs these copies no longer; those that nobody has are removed."""
        with self._lock:
            for name in names:
                entry = self._entries.get(name)
                if entry is not None and holder in entry.holders:
                    entry.holders.discard(holder)
                    if not entry.holders:
                        self._remove(name)

    def _make(self, source: CopySource) -> LookupFile:
        with self._lock:
            self._writers += 1
        try:
            existing = None if self._shared is None else self._shared.get(source, self._blocks)
            return existing or self._make_own(source)
        finally:
            with self._lock:
                self._writers -= 1
                self._close_disk()

    def _make_own(self, source: CopySource) -> LookupFile:
        try:
            return self._own.make(source, self._blocks)
        except UnavailableError:
            if not self._remove_finished():
                raise
            return self._own.make(source, self._blocks)

    def _close_disk(self) -> None:
        """Remove the directories of this process once there is neither a holder nor a writer."""
        if not self._limits and not self._writers:
            self._own.close()

    def _touch(self, entry: _Entry) -> None:
        """Tell other processes, now and then, that a copy is used."""
        if entry.used_ms - entry.touched_ms >= self._touch_ms and entry.file is not None:
            entry.touched_ms = entry.used_ms
            entry.file.stored.record_use(entry.used_ms)

    def _tidy(self, now_ms: int, spared: str | None = None) -> None:
        """Keep the shared directories within the limits, and give up what other processes removed."""
        if self._shared is None:
            return
        self._tidied_ms = now_ms
        self._shared.tidy(self._retention_ms, self._max_disk(), spared)
        with self._lock:
            for name, entry in list(self._entries.items()):
                if entry.file is not None and entry.file.stored.is_removed:
                    self._remove(name)

    def _remove_finished(self) -> bool:
        """Remove all copies, to make room for one; False if there is none."""
        with self._lock:
            names = [name for name, entry in self._entries.items() if entry.file is not None]
            for name in names:
                self._remove(name)
            return bool(names)

    def _remove(self, name: Hashable) -> None:
        file = self._entries.pop(name).file
        if file is not None:
            self._size -= file.size
            file.remove()

    def _remove_unused(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._retention_ms
        while self._entries:
            name, entry = next(iter(self._entries.items()))
            if entry.used_ms > entry.placed_ms:
                self._place_again(name, entry)
                continue
            if entry.used_ms >= oldest_ms or entry.file is None:
                return
            self._remove(name)

    def _place_again(self, name: Hashable, entry: _Entry) -> None:
        """Move an entry that was used without a lock behind those that were not used since."""
        entry.placed_ms = entry.used_ms
        self._entries.move_to_end(name)

    def _shrink(self, spared: _Entry) -> None:
        """Remove the least recently used copies above the limits; `spared` and those being made stay."""
        most = self._max_disk()
        for name, entry in list(self._entries.items()):
            if entry.used_ms > entry.placed_ms:
                self._place_again(name, entry)
        for name, entry in list(self._entries.items()):
            if (most is None or self._size <= most) and len(self._entries) <= self._most:
                return
            if entry is not spared and entry.file is not None:
                self._remove(name)

    def _max_disk(self) -> int | None:
        """Return the highest number of bytes on disk; None without a limit."""
        sizes = [limit.max_disk for limit in list(self._limits.values()) if limit.max_disk is not None]
        return min(sizes, default=None)

    def _limit(self) -> None:
        self._retention_ms = min(limit.retention_ms for limit in self._limits.values())
        self._touch_ms = min(_TOUCH_MS, self._retention_ms // 4)
        self._blocks.limit_to(min(limit.max_memory for limit in self._limits.values()))
