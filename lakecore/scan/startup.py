"""This module defines the start of a read: the `scan.*` and `incremental-*` options of the format, as one
checked value. Pure.

Rule of the format: without `scan.mode` the other options decide the mode, and every mode accepts only its own
options. Times in text are UTC unless they name a zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, InvalidOptionError
from lakecore.options import Option, parse_bool, parse_enum
from lakecore.types.text import parse_timestamp

__all__ = [
    "SCAN_MODE",
    "START_OPTIONS",
    "Incremental",
    "IncrementalMode",
    "IncrementalUnit",
    "Startup",
    "StartupMode",
]


class StartupMode(Enum):
    """The values of `scan.mode`; `default` and the old `full` are resolved to another mode."""

    LATEST_FULL = "latest-full"
    LATEST = "latest"
    COMPACTED_FULL = "compacted-full"
    FROM_TIMESTAMP = "from-timestamp"
    FROM_FILE_CREATION_TIME = "from-file-creation-time"
    FROM_CREATION_TIMESTAMP = "from-creation-timestamp"
    FROM_SNAPSHOT = "from-snapshot"
    FROM_SNAPSHOT_FULL = "from-snapshot-full"
    INCREMENTAL = "incremental"


class IncrementalMode(Enum):
    """It says which changes are read: `auto` is `changelog` if the table has one, else `delta`."""

    AUTO = "auto"
    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"


class IncrementalUnit(Enum):
    """It says what the ends of an interval are."""

    NAMED = "tag or snapshot"
    MILLIS = "milliseconds"
    AUTO_TAG = "automatic tag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incremental:
    """These are the changes that follow `start`, up to and including `end`.

    The ends are tags, snapshot ids or times in text, whichever they can be; or times in milliseconds; or
    `end` is an automatic tag and `start` is empty, which means the tag before it.
    """

    start: str
    """The changes begin here, exclusive: a tag, a snapshot id or a time is given."""
    end: str
    """They end here, inclusive; it may be an automatic tag."""
    unit: IncrementalUnit = IncrementalUnit.NAMED
    """It says what `start` and `end` are."""
    mode: IncrementalMode = IncrementalMode.AUTO
    """It says which changes are read."""
    tags_as_snapshots: bool = False
    """Two tags are compared as states (`diff`) unless this is set."""

    @classmethod
    def parse(cls, text: str, mode: str | IncrementalMode = IncrementalMode.AUTO) -> Incremental:
        """Parse `5..9`, `monday..friday` or `2026-01-01..2026-01-02 12:00:00`. Raises InvalidInputError."""
        start, dots, end = text.partition("..")
        start, end = start.strip(), end.strip()
        if not dots or not start or not end:
            raise InvalidInputError(
                f"incremental {text!r}: write START..END, where both are snapshots, tags or times"
            )
        return cls(start=start, end=end, mode=_mode(mode))


def _mode(mode: str | IncrementalMode) -> IncrementalMode:
    if isinstance(mode, IncrementalMode):
        return mode
    try:
        return parse_enum(IncrementalMode)(mode)
    except ValueError as err:
        raise InvalidInputError(f"incremental mode {mode!r}: {err}") from err


_MILLI = 1_000_000


def _millis(text: str) -> int:
    return parse_timestamp(text.strip()) // _MILLI


SCAN_MODE = Option("scan.mode", str.lower, "default", "Where a read starts.", ("log.scan",))
SNAPSHOT_ID: Option[int | None] = Option("scan.snapshot-id", int, None, "Snapshot to read or start at.")
TAG_NAME: Option[str | None] = Option("scan.tag-name", str, None, "Tag to read.")
VERSION: Option[str | None] = Option("scan.version", str, None, "Tag, snapshot id or watermark-<ms>.")
WATERMARK: Option[int | None] = Option(
    "scan.watermark", int, None, "First snapshot with this watermark (ms)."
)
TIMESTAMP: Option[int | None] = Option("scan.timestamp", _millis, None, "Time in text.")
TIMESTAMP_MILLIS: Option[int | None] = Option(
    "scan.timestamp-millis", int, None, "Milliseconds since the epoch.", ("log.scan.timestamp-millis",)
)
FILE_CREATION: Option[int | None] = Option(
    "scan.file-creation-time-millis", int, None, "Only files made at or after this time."
)
CREATION: Option[int | None] = Option(
    "scan.creation-time-millis", int, None, "Start at this time, by snapshots or else by files."
)
BETWEEN: Option[str | None] = Option("incremental-between", str, None, "Snapshots or tags: START,END.")
BETWEEN_TIMES: Option[str | None] = Option("incremental-between-timestamp", str, None, "Times: START,END.")
TO_AUTO_TAG: Option[str | None] = Option(
    "incremental-to-auto-tag", str, None, "Changes since the tag before."
)
BETWEEN_MODE = Option(
    "incremental-between-scan-mode", parse_enum(IncrementalMode), IncrementalMode.AUTO, "Which changes."
)
TAG_TO_SNAPSHOT = Option(
    "incremental-between-tag-to-snapshot", parse_bool, False, "Tags mean their snapshots."
)

_STARTS = (SNAPSHOT_ID, TAG_NAME, VERSION, WATERMARK, TIMESTAMP, TIMESTAMP_MILLIS, FILE_CREATION, CREATION,
           BETWEEN, BETWEEN_TIMES, TO_AUTO_TAG)  # fmt: skip
_POINTS = tuple(key for option in _STARTS for key in (option.key, *option.old_keys))
START_OPTIONS = (SCAN_MODE.key, *SCAN_MODE.old_keys, *_POINTS)
"""These are the mode, and the options of which at most one may say where to start."""

_MODES: Mapping[str, StartupMode] = {mode.value: mode for mode in StartupMode} | {
    "full": StartupMode.LATEST_FULL
}
_TAKES: Mapping[StartupMode, tuple[str, ...]] = {
    StartupMode.FROM_TIMESTAMP: (TIMESTAMP_MILLIS.key, *TIMESTAMP_MILLIS.old_keys, TIMESTAMP.key),
    StartupMode.FROM_SNAPSHOT: (SNAPSHOT_ID.key, TAG_NAME.key, VERSION.key, WATERMARK.key),
    StartupMode.FROM_SNAPSHOT_FULL: (SNAPSHOT_ID.key,),
    StartupMode.FROM_FILE_CREATION_TIME: (FILE_CREATION.key,),
    StartupMode.FROM_CREATION_TIMESTAMP: (CREATION.key,),
    StartupMode.INCREMENTAL: (BETWEEN.key, BETWEEN_TIMES.key, TO_AUTO_TAG.key),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """One mode and the values that it needs; all others are None. Times are in milliseconds since the
    epoch.
    """

    mode: StartupMode
    snapshot: int | None = None
    tag: str | None = None
    version: str | None = None
    watermark: int | None = None
    timestamp_ms: int | None = None
    created_ms: int | None = None
    incremental: Incremental | None = None

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> Startup:
        """Parse the options. Raises InvalidOptionError if they are malformed, missing or exclude each
        other.
        """
        keys = [key for key in _POINTS if key in raw]
        mode = _startup_mode(raw, keys)
        takes = _TAKES.get(mode, ())
        for key in keys:
            if key not in takes:
                means = f"takes {' or '.join(takes)}" if takes else "takes no starting point"
                raise InvalidOptionError(f"option {key}={raw[key]!r}: scan.mode {mode.value} {means}")
        if takes and len(keys) != 1:
            have = " and ".join(f"{key}={raw[key]!r}" for key in keys) or "none"
            raise InvalidOptionError(
                f"scan.mode {mode.value} needs exactly one of {', '.join(takes)}; the options have {have}"
            )
        times = (TIMESTAMP_MILLIS.read(raw), TIMESTAMP.read(raw))
        created = (FILE_CREATION.read(raw), CREATION.read(raw))
        return cls(
            mode=mode,
            snapshot=SNAPSHOT_ID.read(raw),
            tag=TAG_NAME.read(raw),
            version=VERSION.read(raw),
            watermark=WATERMARK.read(raw),
            timestamp_ms=next((time for time in times if time is not None), None),
            created_ms=next((time for time in created if time is not None), None),
            incremental=_incremental(raw) if mode is StartupMode.INCREMENTAL else None,
        )


def _startup_mode(raw: Mapping[str, str], options: list[str]) -> StartupMode:
    text = SCAN_MODE.read(raw).strip()
    if text in _MODES:
        return _MODES[text]
    if text != "default":
        modes = ", ".join(("default", *_MODES))
        raise InvalidOptionError(f"option scan.mode={text!r}: it must be one of {modes}")
    for mode, takes in _TAKES.items():
        if any(key in takes for key in options):
            return mode
    return StartupMode.LATEST_FULL


def _incremental(raw: Mapping[str, str]) -> Incremental:
    mode, as_snapshots = BETWEEN_MODE.read(raw), TAG_TO_SNAPSHOT.read(raw)
    tag = TO_AUTO_TAG.read(raw)
    if tag is not None:
        return Incremental(start="", end=tag, unit=IncrementalUnit.AUTO_TAG, mode=mode)
    times = BETWEEN_TIMES.read(raw)
    if times is None:
        start, end = _pair(BETWEEN.key, BETWEEN.read(raw) or "")
        return Incremental(start=start, end=end, mode=mode, tags_as_snapshots=as_snapshots)
    start, end = (_time(text, times) for text in _pair(BETWEEN_TIMES.key, times))
    return Incremental(start=start, end=end, unit=IncrementalUnit.MILLIS, mode=mode)


def _pair(key: str, text: str) -> tuple[str, str]:
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip() for part in parts):
        raise InvalidOptionError(f"option {key}={text!r}: write START,END; the start is not included")
    return parts[0].strip(), parts[1].strip()


def _time(text: str, whole: str) -> str:
    try:
        return text if text.lstrip("-").isdigit() else str(_millis(text))
    except ValueError as err:
        raise InvalidOptionError(f"option {BETWEEN_TIMES.key}={whole!r}: {text!r}: {err}") from err
