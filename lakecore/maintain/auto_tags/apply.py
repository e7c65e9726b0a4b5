"""This module makes the automatic tags that are due on one branch, and returns which tags are to be
deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.maintain.auto_tags.options import (
    BATCH_NAME,
    MODE,
    PROCESS_ZONE,
    TIME_EXPIRE,
    WATERMARK_ZONE,
    auto_rule,
    num_retained,
)
from lakecore.maintain.auto_tags.plan import (
    AutoTag,
    CreationMode,
    Moment,
    NewTag,
    next_tags,
    surplus,
)
from lakecore.maintain.deletion.roots import Root, RootKind
from lakecore.maintain.retention_options import TAG_DEFAULT_TIME
from lakecore.maintain.tags.apply import (
    Lifetime,
    aged_tags,
    create,
    write_missing_success_files,
    writes_success_files,
)
from lakecore.maintain.tags.plan import expired_tags
from lakecore.maintain.target import Target, in_threads
from lakecore.maintain.wall_clock import WallClock
from lakecore.metadata.snapshot import Snapshot
from lakecore.scan.auto_tags import AutoTagNames

__all__ = ["BATCH_PREFIX", "DueTags", "automatic_tags", "due_tags", "expired", "make", "newest_tag"]

BATCH_PREFIX = "batch-write-"
_NO_WATERMARK = -(1 << 63)


@dataclass(frozen=True, slots=True)
class DueTags:
    """These are the tags to make, oldest first, and the tags to delete: those beyond the number that is
    kept.
    """

    mode: CreationMode
    new: tuple[NewTag, ...] = ()
    surplus: tuple[str, ...] = ()


def due_tags(target: Target, zone: str, *, latest_only: bool = False) -> DueTags:
    """Return the tags that the table's options ask for now. `zone` is that of commits, where the options name
    none.

    It costs a listing, a read of the newest automatic tag and of the snapshots after it (all where there is
    no such tag); of every automatic tag only when there are too many. `latest_only`: nothing is due unless
    the latest snapshot is, which saves reading the others after every commit; a clock that went back may put
    a tag off until the next one. Raises InvalidOptionError.
    """
    options = target.schema.options
    mode = MODE.read(options)
    if not mode.by_period:
        return DueTags(mode)
    rule, most = auto_rule(options), num_retained(options)
    by_watermark = mode is CreationMode.WATERMARK
    wall = WallClock.of(WATERMARK_ZONE.read(options) if by_watermark else PROCESS_ZONE.read(options) or zone)
    times = _times_by_tag(target, rule.names)
    newest = _newest(target, times)
    if latest_only and newest is not None:
        latest = target.snapshots.latest()
        if latest is None or not next_tags(rule, newest, [_moment(latest, wall, by_watermark=by_watermark)]):
            return DueTags(mode)
    moments = [
        _moment(snapshot, wall, by_watermark=by_watermark)
        for snapshot in _after(target, 0 if newest is None else newest.snapshot)
    ]
    new = next_tags(rule, newest, moments)
    if most is None or len(times) + len(new) <= most:
        return DueTags(mode, new)
    tags = [*_open(target, times), *(AutoTag(tag.name, tag.time_ms, tag.snapshot) for tag in new)]
    surplus_names = frozenset(surplus(tags, most))
    return DueTags(
        mode,
        tuple(tag for tag in new if tag.name not in surplus_names),
        tuple(name for name in sorted(times) if name in surplus_names),
    )


def make(target: Target, due: DueTags, zone: str) -> tuple[str, ...]:
    """Make the new tags, in order; the names of those that were not there. Raises NotFoundError when a
    snapshot expires meanwhile: the next run continues.
    """
    retained_ms = TAG_DEFAULT_TIME.read(target.schema.options)
    lifetime = Lifetime.starting(target.clock.now_ms(), WallClock.of(zone), retained_ms)
    names = []
    for tag in due.new:
        snapshot = target.snapshots.load(tag.snapshot)
        path = target.paths.snapshot(snapshot.id)
        root = Root(RootKind.SNAPSHOT, target.paths.branch, str(snapshot.id), path, snapshot)
        if create(target, tag.name, root, lifetime):
            names.append(tag.name)
    if not names and due.mode.by_period and writes_success_files(target):
        _complete_newest(target)
    return tuple(names)


def expired(target: Target, zone: str) -> tuple[str, ...]:
    """Return tags of any kind whose own time has passed, if the table's options expire them automatically.

    The newest automatic tag stays until there is a newer one: a table whose writer has stopped would lose
    them all. It costs a read of every tag.
    """
    if not TIME_EXPIRE.read(target.schema.options):
        return ()
    now = target.clock.now_ms()
    local = WallClock.of(zone).local_ms(now)
    tags = aged_tags(target, 0 if local is None else local - now)
    last = _last_automatic(target)
    return tuple(name for name in expired_tags(tags, now, None) if name != last)


def _last_automatic(target: Target) -> str | None:
    options = target.schema.options
    mode, names = MODE.read(options), AutoTagNames.from_options(options)
    if mode.by_period:
        times = _times_by_tag(target, names)
        return max(times, key=times.__getitem__, default=None)
    if mode is CreationMode.BATCH:
        own = [name for name in target.tags.list() if name.startswith(BATCH_PREFIX)]
        return BATCH_NAME.read(options) or max(own, default=None)
    return None


def automatic_tags(target: Target) -> frozenset[str]:
    """Return the tags that `tag.num-retained-max` counts. It costs a listing."""
    options = target.schema.options
    mode = MODE.read(options)
    if mode.by_period:
        return frozenset(_times_by_tag(target, AutoTagNames.from_options(options)))
    if mode is CreationMode.BATCH:
        own = BATCH_NAME.read(options) is None
        return frozenset(name for name in target.tags.list() if not own or name.startswith(BATCH_PREFIX))
    return frozenset()


def newest_tag(target: Target) -> AutoTag | None:
    """Return the last automatic tag, by its name. It costs a listing and a read. Raises
    InvalidOptionError.
    """
    return _newest(target, _times_by_tag(target, AutoTagNames.from_options(target.schema.options)))


def _times_by_tag(target: Target, names: AutoTagNames) -> dict[str, int]:
    """Return the tags with automatic names, and their times in nanoseconds."""
    return {name: nanos for name in target.tags.list() if (nanos := names.time_of(name)) is not None}


def _newest(target: Target, ids: dict[str, int]) -> AutoTag | None:
    """Return the tag with the latest time in its name; of two (`2026-01-31`, `2026-01-31 x`) that of the
    newer snapshot.
    """
    if not ids:
        return None
    latest = max(ids.values())
    tags = list(_open(target, {name: nanos for name, nanos in ids.items() if nanos == latest}))
    if not tags:  # just deleted
        return _newest(target, {name: nanos for name, nanos in ids.items() if nanos != latest})
    return max(tags, key=lambda tag: tag.snapshot)


def _open(target: Target, ids: dict[str, int]) -> Iterator[AutoTag]:
    """Yield the tags with their snapshots; those that are deleted meanwhile are left out."""

    def opened(name: str) -> AutoTag | None:
        try:
            return AutoTag(name, ids[name] // 1_000_000, target.tags.load(name).id)
        except NotFoundError:
            return None

    return (tag for tag in in_threads(opened, sorted(ids)) if tag is not None)


def _after(target: Target, snapshot_id: int) -> Iterator[Snapshot]:
    """Yield the snapshots that are younger, by id; gaps do not matter."""
    ids = [one for one in target.snapshots.list_ids() if one > snapshot_id]
    return (snapshot for snapshot in in_threads(target.snapshots.find, ids) if snapshot is not None)


def _moment(snapshot: Snapshot, wall: WallClock, *, by_watermark: bool) -> Moment:
    time = snapshot.watermark if by_watermark else snapshot.time_millis
    return Moment(snapshot.id, None if time in (None, _NO_WATERMARK) else wall.local_ms(time or 0))


def _complete_newest(target: Target) -> None:
    """Write the success file of the newest automatic tag, which a run that was killed after its last tag may
    have left out.
    """
    last = _last_automatic(target)
    if last is not None:
        write_missing_success_files(target, [last])
