"""This module has the cache that all queries of a process share unless they are given another one."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from lakecore.lookup.query.lookup_cache import LookupCache

__all__ = ["process_cache", "share_process_cache"]

_cache: LookupCache | None = None
_making = threading.Lock()


def process_cache() -> LookupCache:
    """Return the cache of this process."""
    global _cache
    with _making:
        if _cache is None:
            _cache = LookupCache()
        return _cache


def share_process_cache(directories: Sequence[str]) -> None:
    """Let the cache of this process share its copies below these directories, unless it exists already."""
    global _cache
    with _making:
        if _cache is None:
            _cache = LookupCache(directories, shared=True)


def _forget() -> None:
    """Begin anew in a child process: the directories are those of its parent."""
    global _cache, _making
    _cache, _making = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
