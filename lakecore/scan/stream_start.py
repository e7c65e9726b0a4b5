"""This module defines the start of a stream: a full state, or the changes from some snapshot on."""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.metadata.snapshot import Snapshot
from lakecore.scan.history import History
from lakecore.scan.startup import TAG_NAME, VERSION, WATERMARK, Startup, StartupMode
from lakecore.scan.time_travel import first_snapshot_since, latest_compacted_snapshot

__all__ = ["StreamStart", "stream_start"]

_FIRST = 1


@dataclass(frozen=True, slots=True)
class StreamStart:
    """This is the point at which a stream begins."""

    next_snapshot: int
    """This is the first snapshot whose changes are read."""
    full: Snapshot | None = None
    """This state is read first; None to read only changes."""
    created_ms: int | None = None
    """Only files of `full` created at or after this time (milliseconds) are read; None means all files."""


def stream_start(
    startup: Startup, options: Mapping[str, str], history: History, *, latest_from_first: bool
) -> StreamStart | None:
    """Resolve a mode to a start; None while the table has no snapshot and the start depends on the first
    one. A start that has expired moves to the earliest.

    `latest_from_first`: the table was empty when the stream was made, so that mode `latest` begins with the
    first snapshot. Raises InvalidOptionError for a start that streams do not have.
    """
    snapshots = history.snapshots
    match startup.mode:
        case StartupMode.LATEST_FULL:
            return _after(snapshots.latest())
        case StartupMode.LATEST:
            latest = None if latest_from_first else snapshots.latest_id()
            return StreamStart(_FIRST if latest is None else latest + 1)
        case StartupMode.COMPACTED_FULL:
            return _after(latest_compacted_snapshot(options, snapshots))
        case StartupMode.FROM_TIMESTAMP:
            before = history.before(startup.timestamp_ms or 0)
            return None if before is None else StreamStart(before + 1)
        case StartupMode.FROM_FILE_CREATION_TIME:
            return _after(snapshots.latest(), startup.created_ms)
        case StartupMode.FROM_CREATION_TIMESTAMP:
            snapshot = first_snapshot_since(startup.created_ms or 0, history)
            return (
                _after(snapshots.latest(), startup.created_ms) if snapshot is None else StreamStart(snapshot)
            )
        case StartupMode.FROM_SNAPSHOT:
            earliest = history.earliest_id()
            return None if earliest is None else StreamStart(max(_snapshot_id(startup), earliest))
        case StartupMode.FROM_SNAPSHOT_FULL:
            first = snapshots.earliest()
            return None if first is None else _after(snapshots.load(max(_snapshot_id(startup), first.id)))
    raise InvalidOptionError(
        f"scan.mode {startup.mode.value} (incremental-between, incremental-between-timestamp or "
        "incremental-to-auto-tag): only a batch read can use this mode; choose another mode for the stream"
    )


def _after(full: Snapshot | None, created_ms: int | None = None) -> StreamStart | None:
    return None if full is None else StreamStart(full.id + 1, full, created_ms)


def _snapshot_id(startup: Startup) -> int:
    if startup.snapshot is not None:
        return startup.snapshot
    if startup.version is not None and startup.version.isascii() and startup.version.isdigit():
        return int(startup.version)
    points = {TAG_NAME.key: startup.tag, VERSION.key: startup.version, WATERMARK.key: startup.watermark}
    text = " and ".join(f"{key}={value!r}" for key, value in points.items() if value is not None)
    raise InvalidOptionError(
        f"option {text}: a stream starts at a snapshot id, not at a tag or watermark; give scan.snapshot-id"
    )
