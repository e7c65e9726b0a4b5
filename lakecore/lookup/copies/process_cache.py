"""This module has the cache that all queries of a process share unless they are given another one, and makes
the one that they are given where local copies outlive the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from lakecore.errors import InvalidInputError, reason
from lakecore.lookup.copies.shared_directory import SharedDirectory
from lakecore.lookup.query.lookup_cache import LookupCache

__all__ = ["process_cache", "share_process_cache", "shared_cache"]

_cache: LookupCache | None = None
_making = threading.Lock()


def process_cache() -> LookupCache:
    """Return the cache of this process."""
    global _cache
    with _making:
        if _cache is None:
            _cache = LookupCache()
        return _cache


def shared_cache(directories: Sequence[str]) -> LookupCache | None:
    """Return a cache whose copies are below these directories and shared with other processes; None without
    directories, for the cache of the process. Raises InvalidInputError for a directory that cannot be used.
    """
    for directory in directories:
        try:
            SharedDirectory(directory)
        except OSError as err:
            raise InvalidInputError(
                f"cache directory {directory}: {reason(err)}; name a directory of a local disk in which this "
                "user may make directories"
            ) from err
    return LookupCache(directories, shared=True) if directories else None


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
