"""Time travel selects the snapshot that a batch read sees: the latest, or one by id, tag, version, time or
watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.metadata.options import ChangelogProducer
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from lakecore.options import Option, parse_enum
from lakecore.scan.history import History
from lakecore.scan.startup import Startup, StartupMode
from lakecore.store.snapshots import SnapshotStore
from lakecore.store.tags import TagStore

__all__ = ["LATEST", "BatchStart", "TimeTravel", "batch_start", "latest_compacted_snapshot", "snapshot_as_of"]

_WATERMARK = "watermark-"
_NEVER = -(1 << 63)

FULL_COMPACTION_COMMITS: Option[int | None] = Option(
    "full-compaction.delta-commits", int, None, "Commits between full compactions."
)
_PRODUCER = Option(
    "changelog-producer", parse_enum(ChangelogProducer), ChangelogProducer.NONE, "How changes are made."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeTravel:
    """The snapshot that a read asks for: at most one field is set; none means the latest snapshot."""

    snapshot: int | None = None
    """This is a snapshot id."""
    tag: str | None = None
    """This is the name of a tag."""
    timestamp_ms: int | None = None
    """The last snapshot at or before this time is read, in milliseconds since the epoch."""
    watermark: int | None = None
    """The first snapshot is read whose watermark, in milliseconds, is at least this one."""
    version: str | None = None
    """This is a tag, `watermark-<ms>` or a snapshot id."""

    def __post_init__(self) -> None:
        choices = [name for name in self.__slots__ if getattr(self, name) is not None]
        if len(choices) > 1:
            raise InvalidInputError(f"{' and '.join(choices)} exclude each other; give only one of them")

    @property
    def is_latest(self) -> bool:
        """Return whether nothing was requested: the read uses the latest schema, else that of the
        snapshot.
        """
        return all(getattr(self, name) is None for name in self.__slots__)


LATEST = TimeTravel()


@dataclass(frozen=True, slots=True)
class BatchStart:
    """The state that a batch read sees."""

    snapshot: Snapshot | None
    """This is the snapshot; None if the table has none yet."""
    uses_snapshot_schema: bool = False
    """It tells whether the schema of `snapshot` is used instead of the latest one."""
    created_ms: int | None = None
    """Only files created at or after this time (milliseconds since the epoch) are read; None means all
    files.
    """


def batch_start(startup: Startup, options: Mapping[str, str], history: History, tags: TagStore) -> BatchStart:
    """Resolve any mode but `incremental` to a state. Raises NotFoundError that names what is available."""
    snapshots = history.snapshots
    match startup.mode:
        case StartupMode.COMPACTED_FULL:
            return BatchStart(latest_compacted_snapshot(options, snapshots))
        case StartupMode.FROM_FILE_CREATION_TIME:
            return BatchStart(snapshots.latest(), created_ms=startup.created_ms)
        case StartupMode.FROM_CREATION_TIMESTAMP:
            snapshot = first_snapshot_since(startup.created_ms or 0, history)
            if snapshot is None:
                return BatchStart(snapshots.latest(), created_ms=startup.created_ms)
            return BatchStart(snapshots.load(snapshot))
    travel = TimeTravel(
        snapshot=startup.snapshot,
        tag=startup.tag,
        timestamp_ms=startup.timestamp_ms,
        watermark=startup.watermark,
        version=startup.version,
    )
    return BatchStart(snapshot_as_of(travel, snapshots, tags), uses_snapshot_schema=not travel.is_latest)


def snapshot_as_of(travel: TimeTravel, snapshots: SnapshotStore, tags: TagStore) -> Snapshot | None:
    """Return the snapshot to read; None if the latest is asked for and there is none yet.

    Raises NotFoundError that names what is available.
    """
    if travel.version is not None:
        travel = resolve_version(travel.version, tags)
    if travel.snapshot is not None:
        return snapshots.load(travel.snapshot)
    if travel.tag is not None:
        return tags.load(travel.tag)
    if travel.timestamp_ms is not None:
        return snapshot_at(travel.timestamp_ms, snapshots)
    if travel.watermark is not None:
        return _at_watermark(travel.watermark, snapshots)
    return snapshots.latest()


def resolve_version(version: str, tags: TagStore) -> TimeTravel:
    """Resolve a version. Rule of the format: a tag of that name wins, then `watermark-<ms>`, then a
    snapshot id.
    """
    names = tags.list()
    if version in names:
        return TimeTravel(tag=version)
    number = version.removeprefix(_WATERMARK)
    if number.isascii() and number.isdigit():
        return TimeTravel(watermark=int(number)) if number != version else TimeTravel(snapshot=int(number))
    raise NotFoundError(
        f"version {version!r} of {tags.paths.root}: this is neither a tag (the table has: "
        f"{', '.join(names) or 'none'}), "
        "nor watermark-<ms>, nor a snapshot id"
    )


def latest_compacted_snapshot(options: Mapping[str, str], snapshots: SnapshotStore) -> Snapshot | None:
    """Return the newest snapshot made by a compaction, else the latest snapshot.

    If the options say when full compactions are made, only those count. It costs a read a snapshot, from
    the newest back.
    """
    commits = FULL_COMPACTION_COMMITS.read(options)
    if commits is None and _PRODUCER.read(options) is ChangelogProducer.FULL_COMPACTION:
        commits = 1
    for snapshot_id in reversed(snapshots.list_ids()):
        snapshot = snapshots.find(snapshot_id)
        if snapshot is not None and snapshot.commit_kind is CommitKind.COMPACT:
            identifier = snapshot.commit_identifier
            if commits is None or identifier == BATCH_IDENTIFIER or identifier % commits == 0:
                return snapshot
    return snapshots.latest()


def first_snapshot_since(timestamp_ms: int, history: History) -> int | None:
    """Return the id of the first snapshot at or after a time, or None if it is not known to be the first.

    Where all that is left is at or after the time, older ones may have been.
    """
    earliest, before = history.earliest_id(), history.before(timestamp_ms)
    if earliest is None or before is None or before < earliest:
        return None
    return before + 1 if history.find(before + 1) is not None else None


def snapshot_at(timestamp_ms: int, snapshots: SnapshotStore) -> Snapshot:
    """Return the last snapshot committed at or before a time. It costs a listing and a few reads.

    Times are assumed to grow with ids, as the format does. Snapshots that expire meanwhile count as too
    old. Raises NotFoundError that names the earliest.
    """
    ids = snapshots.list_ids()
    _, result = _bisect(ids, snapshots, lambda snapshot: snapshot.time_millis <= timestamp_ms)
    if result is None:
        earliest = snapshots.earliest()
        range_text = (
            f"the earliest is {earliest.id} at {earliest.time_millis} ms" if earliest else "there are none"
        )
        raise NotFoundError(
            f"{snapshots.paths.root} has no snapshot at or before {timestamp_ms} ms; {range_text}"
        )
    return result


def _at_watermark(watermark: int, snapshots: SnapshotStore) -> Snapshot:
    """Return a snapshot whose watermark is the least one that is at least `watermark`.

    Watermarks are taken to grow with ids. A snapshot without one takes the place of the nearest earlier one
    that has one, and is never the answer. Where several have the same, the search decides as the format's
    does: any of them is right. (Releases of Java up to 2.0.0 give a snapshot without a watermark, or search
    for ever, where such a snapshot lies between others; later ones search as here.) Cost: a read for each
    snapshot before the first that has a watermark, then the logarithm of their number.
    """
    marked = _WatermarkSearch(snapshots, snapshots.list_ids())
    low, nearest = marked.first()
    high = len(marked.ids) - 1
    if nearest is not None and _mark(nearest) < watermark:
        nearest = None
        while low <= high:
            middle = (low + high) // 2
            place, snapshot = marked.at_or_before(middle, low)
            if _mark(snapshot) < watermark:
                low = middle + 1
                continue
            nearest, high = snapshot, place - 1
            if _mark(snapshot) == watermark:
                break
    if nearest is not None:
        return nearest
    latest = snapshots.latest()
    latest_text = f"the latest is {latest.watermark}" if latest else "there is no snapshot"
    raise NotFoundError(
        f"{snapshots.paths.root} has no snapshot with a watermark of at least {watermark} ms; {latest_text}"
    )


@dataclass(frozen=True, slots=True)
class _WatermarkSearch:
    """Snapshots by place, of which some have no watermark, and some expire meanwhile."""

    snapshots: SnapshotStore
    ids: tuple[int, ...]

    def first(self) -> tuple[int, Snapshot | None]:
        """Return the first snapshot with a watermark, and its place."""
        for place, snapshot_id in enumerate(self.ids):
            snapshot = self.snapshots.find(snapshot_id)
            if _mark(snapshot) != _NEVER:
                return place, snapshot
        return len(self.ids), None

    def at_or_before(self, place: int, first: int) -> tuple[int, Snapshot | None]:
        """Return the last snapshot with a watermark from place `first` to `place`, and its place."""
        for candidate in range(place, first - 1, -1):
            snapshot = self.snapshots.find(self.ids[candidate])
            if _mark(snapshot) != _NEVER:
                return candidate, snapshot
        return place, None


def _mark(snapshot: Snapshot | None) -> int:
    return _NEVER if snapshot is None or snapshot.watermark is None else snapshot.watermark


def _bisect(
    ids: tuple[int, ...], snapshots: SnapshotStore, early: Callable[[Snapshot], bool]
) -> tuple[int, Snapshot | None]:
    """Return how many of `ids` are early, and the last early one that was read. Missing ones count as
    early.
    """
    low, high = 0, len(ids)
    nearest: Snapshot | None = None
    while low < high:
        middle = (low + high) // 2
        snapshot = snapshots.find(ids[middle])
        if snapshot is None or early(snapshot):
            low, nearest = middle + 1, snapshot or nearest
        else:
            high = middle
    return low, nearest
