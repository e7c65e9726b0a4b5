"""The interval that an incremental batch read covers: its snapshots, and which of their changes are read.

Rules of the format: the start is excluded; two tags compare states; ids may start one before the earliest
snapshot; times beyond the available snapshots are clamped to them.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.metadata.options import ChangelogProducer
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.scan.auto_tags import AutoTagNames
from lakecore.scan.startup import Incremental, IncrementalMode, IncrementalUnit
from lakecore.scan.stream_policy import ChangeKind
from lakecore.scan.time_travel import snapshot_at
from lakecore.store.snapshots import SnapshotStore
from lakecore.store.tags import TagStore
from lakecore.types.text import parse_timestamp

__all__ = ["Difference", "Interval", "resolve_interval"]


@dataclass(frozen=True, slots=True)
class Interval:
    """These are the changes of the snapshots `first` to `last`, both included."""

    first: int
    last: int
    kind: ChangeKind

    def selects(self, snapshot: Snapshot) -> bool:
        """Return whether a snapshot is read: with changelogs all but overwrites count, with deltas only
        appended rows do.
        """
        if self.kind is ChangeKind.CHANGELOG:
            return snapshot.commit_kind is not CommitKind.OVERWRITE
        return snapshot.commit_kind is CommitKind.APPEND


@dataclass(frozen=True, slots=True)
class Difference:
    """The two states that a read compares."""

    before: Snapshot
    after: Snapshot


def resolve_interval(
    request: Incremental,
    producer: ChangelogProducer,
    options: Mapping[str, str],
    snapshots: SnapshotStore,
    tags: TagStore,
) -> Interval | Difference | None:
    """Return what to read; None if nothing lies between the ends.

    Raises NotFoundError that names what is available, InvalidInputError if the ends are in the wrong
    order.
    """
    resolver = _Resolver(request, producer, snapshots, tags)
    if request.unit is IncrementalUnit.AUTO_TAG:
        return resolver.to_auto_tag(AutoTagNames.from_options(options))
    if request.unit is IncrementalUnit.MILLIS:
        return resolver.between_times(int(request.start), int(request.end))
    names = set(tags.list())
    if request.start in names and request.end in names:
        return resolver.between_tags(tags.load(request.start), tags.load(request.end))
    if request.start.isdigit() and request.end.isdigit():
        return resolver.between_ids(int(request.start), int(request.end))
    times = _times(request)
    if times is None:
        raise NotFoundError(
            f"incremental {request.start!r} to {request.end!r} of {tags.paths.root}: these are "
            "neither two tags (the table has: "
            f"{', '.join(sorted(names)) or 'none'}), nor two snapshot ids, nor two times"
        )
    return resolver.between_times(*times)


def _times(request: Incremental) -> tuple[int, int] | None:
    try:
        return parse_timestamp(request.start) // 1_000_000, parse_timestamp(request.end) // 1_000_000
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class _Resolver:
    request: Incremental
    producer: ChangelogProducer
    snapshots: SnapshotStore
    tags: TagStore

    def between_tags(self, start: Snapshot, end: Snapshot) -> Interval | Difference | None:
        if self.request.tags_as_snapshots and self.request.mode is not IncrementalMode.DIFF:
            return self._changes(start.id, end.id)
        self._check_order(start.id, end.id)
        return None if start.id == end.id else Difference(start, end)

    def between_ids(self, start: int, end: int) -> Interval | Difference | None:
        self._check_order(start, end)
        if start == end or self.snapshots.earliest() is None:
            return None
        return self._changes(start, end)

    def between_times(self, start: int, end: int) -> Interval | Difference | None:
        earliest, latest = self.snapshots.earliest(), self.snapshots.latest()
        if earliest is None or latest is None:
            return None
        self._check_order(start, end)
        if start == end or start > latest.time_millis or end < earliest.time_millis:
            return None
        last = snapshot_at(end, self.snapshots)
        if start < earliest.time_millis:
            if self.request.mode is IncrementalMode.DIFF:
                return Difference(earliest, last)
            return self._interval(earliest.id - 1, last.id)
        first = snapshot_at(start, self.snapshots)
        if self.request.mode is IncrementalMode.DIFF:
            return Difference(first, last)
        return self._interval(first.id, last.id)

    def to_auto_tag(self, names: AutoTagNames) -> Difference | None:
        time = names.time_of(self.request.end)
        if time is None:
            raise InvalidInputError(
                f"tag {self.request.end!r}: this is not the name of an automatic tag; such names "
                f"look like {names.example}"
            )
        tags = self.tags.list()
        earlier = {
            times: name for name in tags if (times := names.time_of(name)) is not None and times < time
        }
        if self.request.end not in tags or not earlier:
            return None
        return Difference(self.tags.load(earlier[max(earlier)]), self.tags.load(self.request.end))

    def _changes(self, start: int, end: int) -> Interval | Difference:
        """Return the changes after `start`, which was read already, while all of them exist."""
        if self.request.mode is IncrementalMode.DIFF:
            return Difference(self.snapshots.load(start), self.snapshots.load(end))
        earliest, latest = self.snapshots.earliest(), self.snapshots.latest()
        if earliest is None or latest is None or start < earliest.id - 1 or end > latest.id:
            there = (
                f"snapshots {earliest.id} to {latest.id} exist" if earliest and latest else "there are none"
            )
            raise NotFoundError(
                f"incremental {start} to {end} of {self.snapshots.paths.root} needs snapshots {start + 1} "
                f"to {end}; {there}"
            )
        return self._interval(start, end)

    def _interval(self, start: int, end: int) -> Interval:
        mode = self.request.mode
        if mode is IncrementalMode.AUTO and self.producer is not ChangelogProducer.NONE:
            mode = IncrementalMode.CHANGELOG
        changelog = mode is IncrementalMode.CHANGELOG
        return Interval(start + 1, end, ChangeKind.CHANGELOG if changelog else ChangeKind.ADDED)

    def _check_order(self, start: int, end: int) -> None:
        if end < start:
            raise InvalidInputError(
                f"incremental {self.request.start} to {self.request.end}: the end is before the start"
            )
