"""This module has the options that several kinds of catalogs with a server share, with Paimon's names."""

from __future__ import annotations

from lakecore.options import Option, parse_bool, parse_duration_ms

__all__ = [
    "LOCK_ENABLED",
    "LOCK_SLEEP",
    "LOCK_TIMEOUT",
    "POOL_SIZE",
    "SYNC_PROPERTIES",
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
