"""This module has the options of the cache of a catalog, with Paimon's names, units and defaults. No IO."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.options import Option, parse_bool, parse_duration_ms, parse_size

__all__ = ["CACHE_ENABLED", "CACHE_OPTIONS", "CacheLimits"]

CACHE_ENABLED = Option("cache-enabled", parse_bool, False, "Whether a catalog keeps decoded manifests.")
_AFTER_ACCESS = Option(
    "cache.expire-after-access", parse_duration_ms, 600_000,
    "Files that no plan needed for so long are forgotten (ms).", ("cache.expiration-interval",),
)  # fmt: skip
_AFTER_WRITE = Option(
    "cache.expire-after-write", parse_duration_ms, 1_800_000, "Files are read again after this time (ms)."
)
_SMALL_MEMORY = Option(
    "cache.manifest.small-file-memory",
    parse_size,
    128 << 20,
    "Memory for small files, in bytes.",
)
_THRESHOLD = Option(
    "cache.manifest.small-file-threshold",
    parse_size,
    1 << 20,
    "Larger manifests are not kept, in bytes.",
)
_MAX_MEMORY: Option[int | None] = Option(
    "cache.manifest.max-memory", parse_size, None,
    "Memory for files of every size, in bytes; if it is larger than cache.manifest.small-file-memory.",
)  # fmt: skip
_VECTORS = Option(
    "cache.deletion-vectors.max-num", int, 100_000, "Deletion vectors that kept index manifests may name."
)
_SNAPSHOTS = Option(
    "cache.snapshot.max-num-per-table", int, 0,
    "Snapshots of a table, and with any its schema, that scans are given from memory.",
)  # fmt: skip
_PARTITIONS = Option(
    "cache.partition.max-num", int, 0, "Partitions that lists of partitions in memory may have."
)
_LIMITS = (_AFTER_ACCESS, _AFTER_WRITE, _SMALL_MEMORY, _THRESHOLD, _MAX_MEMORY, _VECTORS)
_STALE = (_SNAPSHOTS, _PARTITIONS)

CACHE_OPTIONS = (CACHE_ENABLED, *_LIMITS, *_STALE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLimits:
    """These are the limits of a cache."""

    memory: int = 128 << 20
    """It keeps so many bytes at most, as far as they can be counted."""
    threshold: int = 1 << 20
    """It keeps no manifest whose file has more bytes."""
    after_access_ms: int = 600_000
    after_write_ms: int = 1_800_000
    vectors: int = 100_000
    """So many deletion vectors may be in what it keeps."""
    snapshots: int = 0
    """So many snapshots of a table, and its schema, are kept for scans, which may then be stale; 0: none."""
    partitions: int = 0
    """So many partitions may be in the lists that are kept, which may be stale; 0: no list is kept."""

    @property
    def allows_stale(self) -> bool:
        """Return whether anything is kept that others can change."""
        return self.snapshots > 0 or self.partitions > 0

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> CacheLimits | None:
        """Return the limits, None for a catalog without a cache, which is the default.

        Raises InvalidOptionError for values that are no limits, UnsupportedError for limits of a cache that
        is not enabled.
        """
        if not CACHE_ENABLED.read(raw):
            options: list[Option[Any]] = [*_LIMITS, *(option for option in _STALE if option.read(raw) != 0)]
            keys = sorted(key for option in options for key in option.keys if key in raw)
            if keys:
                raise UnsupportedError(
                    f"catalog option {keys[0]}: it would have no effect without {CACHE_ENABLED.key}=true; "
                    "set that, or leave it out"
                )
            return None
        for option in (*_LIMITS, *_STALE):
            _check(option, raw)
        memory, whole = _SMALL_MEMORY.read(raw), _MAX_MEMORY.read(raw)
        every_size = whole is not None and whole > memory
        return cls(
            memory=whole if whole is not None and every_size else memory,
            threshold=sys.maxsize if every_size else _THRESHOLD.read(raw),
            after_access_ms=_AFTER_ACCESS.read(raw),
            after_write_ms=_AFTER_WRITE.read(raw),
            vectors=_VECTORS.read(raw),
            snapshots=_SNAPSHOTS.read(raw),
            partitions=_PARTITIONS.read(raw),
        )


def _check(option: Option[int] | Option[int | None], raw: Mapping[str, str]) -> None:
    """Raise InvalidOptionError for a negative value, and for a time of 0."""
    value = option.read(raw)
    least = 1 if option in (_AFTER_ACCESS, _AFTER_WRITE) else 0
    if value is not None and value < least:
        raise InvalidOptionError(
            f"catalog option {option.key}={value}: the value must be at least {least}; to keep nothing, set "
            f"{CACHE_ENABLED.key}=false"
        )
