"""This module has the cache of decoded manifests of a catalog, bounded by memory, age and use."""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.clock import Clock
from lakecore.store.cache.bounded import BoundedCache
from lakecore.store.cache.limits import CacheLimits

__all__ = ["ManifestCache", "open_cache"]


class ManifestCache(BoundedCache):
    """It holds what files of manifests contain, by the kind and the path of the file."""


def open_cache(options: Mapping[str, str], clock: Clock) -> ManifestCache | None:
    """Return the cache of a catalog with these options, None where they enable none. It raises as
    `CacheLimits.from_options` does.
    """
    limits = CacheLimits.from_options(options)
    return None if limits is None else ManifestCache(limits, clock)
