"""This module has the settle time: it says how long a published file is watched, because another writer
may still replace it.

Lakecore publishes by an atomic creation, which fails if the name is taken. Java Paimon's renaming commit
checks whether the name is free and then renames over whatever is there (`RenamingSnapshotCommit`,
`LocalFileIO.rename` and `S3A` of 1.4 and 2.0): a writer that checked before lakecore published replaces
lakecore's file after it. On HDFS the name node refuses such a rename, so nothing has to be watched.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.options import Option, parse_duration_ms

__all__ = ["SETTLE_TIME", "is_read_only", "is_replaceable", "settle_ms"]

_LOCAL_MS = 200
_OBJECT_STORE_MS = 1000

SETTLE_TIME: Option[int | None] = Option(
    "lakecore.commit.settle-time",
    parse_duration_ms,
    None,
    "How long a commit waits before it looks whether its snapshot is still there; 0 switches it off (ms).",
)


def is_replaceable(path: str) -> bool:
    """Return whether Java Paimon may replace a snapshot that was published at a plain path a moment ago."""
    from lakecore.fs.stores.registry import is_remote, store_of  # the help of commands loads no stores

    return not is_remote(path) or store_of(path.partition("://")[0], path).is_replaceable


def is_read_only(path: str) -> bool:
    """Return whether lakecore changes nothing in the storage of a plain path."""
    from lakecore.fs.stores import registry  # the help of commands loads no stores

    return registry.is_read_only(path)


def settle_ms(options: Mapping[str, str], path: str) -> int:
    """Return the milliseconds for a table below `path`. Without the option they depend on the store of
    `path`.

    `docs/concurrency.md` explains how the defaults were measured. Storage in memory belongs to one
    process, which has no other writer.
    """
    chosen = SETTLE_TIME.read(options)
    if chosen is not None:
        return chosen
    if path.startswith("memory://"):
        return 0
    if not is_replaceable(path):
        return 0
    return _OBJECT_STORE_MS if "://" in path else _LOCAL_MS
