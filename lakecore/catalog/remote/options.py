"""This module has the options that several kinds of catalogs with a server share, with Paimon's names."""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.errors import InvalidOptionError
from lakecore.options import Option, parse_bool, parse_duration_ms

__all__ = [
    "LOCK_ENABLED",
    "LOCK_SLEEP",
    "LOCK_TIMEOUT",
    "POOL_SIZE",
    "SYNC_PROPERTIES",
    "holds_lock",
    "parse_count",
]


def parse_count(text: str) -> int:
    """Parse a whole number above 0."""
    if not text.strip().isdigit() or int(text) < 1:
        raise ValueError("must be a whole number above 0")
    return int(text)


POOL_SIZE = Option("client-pool-size", parse_count, 2, "The greatest number of open connections.")
LOCK_ENABLED: Option[bool | None] = Option(
    "lock.enabled", parse_bool, None, "Whether commits hold the lock of the catalog."
)
LOCK_TIMEOUT = Option(
    "lock-acquire-timeout", parse_duration_ms, 480_000, "How long a commit waits for the lock (ms)."
)
LOCK_SLEEP = Option(
    "lock-check-max-sleep", parse_duration_ms, 8_000, "The longest pause between two tries (ms)."
)
SYNC_PROPERTIES = Option(
    "sync-all-properties", parse_bool, True, "Whether options of tables are copied into the catalog."
)


def holds_lock(raw: Mapping[str, str], *, object_store: bool) -> bool:
    """Return whether commits hold the lock of the catalog: by default on object stores only, as in Java.

    Raises InvalidOptionError for an option of the lock where it is off: whoever sets it believes it on.
    """
    chosen = LOCK_ENABLED.read(raw)
    enabled = object_store if chosen is None else chosen
    idle = [] if enabled else [key for key in (LOCK_TIMEOUT.key, LOCK_SLEEP.key) if key in raw]
    if idle:
        raise InvalidOptionError(
            f"catalog option {idle[0]}={raw[idle[0]]}: it has no effect, because commits do not hold the "
            f"lock of the catalog; set {LOCK_ENABLED.key}=true, or leave the option out"
        )
    return enabled
