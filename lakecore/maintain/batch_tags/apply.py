"""This module reads what is known of a branch's history, and makes and replaces the tags of periods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import overload

from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.maintain.auto_tags.options import MODE
from lakecore.maintain.batch_tags.plan import PeriodAction, Point, Series, State
from lakecore.maintain.deletion.roots import NamedRoot, Root, RootKind, named_roots, root_reader
from lakecore.maintain.deletion.sweep import Sweeper, SweepResult
from lakecore.maintain.tags.apply import Lifetime, create, replace, write_missing_success_files
from lakecore.maintain.target import Target, in_threads
from lakecore.scan.auto_tags import AutoTagNames

Clock = Callable[[Root], int | None]

__all__ = ["History", "check_series", "make", "read_history", "replace_others"]


class History:
    """This is what is left of a history; snapshots and changelogs are read when they are asked for, once.

    `tags`: names to snapshots. Whatever reads raises NotFoundError when a snapshot expires meanwhile.
    """

    def __init__(self, listed: Iterable[NamedRoot], read: Callable[[NamedRoot], Root], clock: Clock) -> None:
        self._read, self._clock = read, clock
        periods = list(listed)
        tags = list(in_threads(read, [one for one in periods if one.kind is RootKind.TAG]))
        self.tags: Mapping[str, int] = {root.name: root.snapshot.id for root in tags}
        self._loaded = {root.snapshot.id: root for root in tags}
        by_kind = {
            kind: {int(one.name): one for one in periods if one.kind is kind}
            for kind in (RootKind.CHANGELOG, RootKind.SNAPSHOT)
        }
        self._snapshots = by_kind[RootKind.SNAPSHOT]
        self._files = by_kind[RootKind.CHANGELOG] | self._snapshots
        self._taggable_ids = self._snapshots.keys() | self._loaded.keys()
        for snapshot in self._snapshots.keys() & self._loaded.keys():
            del self._loaded[snapshot]  # what keeps it is the snapshot, too
        self.points: Sequence[Point] = _Points(sorted(self._files.keys() | self._taggable_ids), self._point)

    def root(self, snapshot: int) -> Root | None:
        """Return the root that keeps a snapshot: its file, else a tag; None when it cannot be tagged."""
        return self._root(snapshot) if snapshot in self._taggable_ids else None

    @property
    def newest_ms(self) -> int | None:
        """Return the highest time that a clock of the points has shown: that of the last one, or of a tag."""
        times = [self._clock(root) for root in self._loaded.values()]
        last = self.points[-1].clock_ms if self.points else None
        return max((time for time in (*times, last) if time is not None), default=None)

    @property
    def oldest(self) -> Point | None:
        """Return the oldest snapshot that can be tagged."""
        return self._point(min(self._taggable_ids)) if self._taggable_ids else None

    def _point(self, snapshot: int) -> Point:
        return Point(snapshot, self._clock(self._root(snapshot)), snapshot in self._taggable_ids)

    def _root(self, snapshot: int) -> Root:
        if snapshot not in self._loaded:
            self._loaded[snapshot] = self._read(self._files[snapshot])
        return self._loaded[snapshot]


class _Points(Sequence[Point]):
    """Points by id, which are made when they are read."""

    def __init__(self, ids: Sequence[int], load: Callable[[int], Point]) -> None:
        self._ids, self._load = ids, load

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, at: int) -> Point: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Point, ...]: ...
    def __getitem__(self, at: int | slice) -> Point | tuple[Point, ...]:
        if isinstance(at, slice):
            return tuple(map(self._load, self._ids[at]))
        return self._load(self._ids[at])


def read_history(target: Target, *, by_watermark: bool) -> History:
    """Read the history of a table. It costs three listings and a small read of every tag; and later one read
    of each snapshot that is needed, which are some log2 of them for each period. Raises UnavailableError when
    a listing disagrees with the hints, NotFoundError when a tag is deleted meanwhile.
    """
    branch = target.paths.branch
    listed, read = named_roots(target.file_io, target.paths, branch), root_reader(target.file_io, branch)
    return History(listed, read, partial(_clock, by_watermark=by_watermark))


def check_series(target: Target, series: Series) -> None:
    """Raise InvalidInputError if the table makes tags of such names itself, by another rule."""
    options = target.schema.options
    if not MODE.read(options).by_period:
        return
    names = AutoTagNames.from_options(options)
    if names.time_of(series.name_of(0)) is not None:
        raise InvalidInputError(
            f"{target.name} creates tags like {names.example} automatically ({MODE.key}); "
            f"choose other names, such as 'eod-{{period}}'"
        )


def make(
    target: Target, duties: Sequence[PeriodAction], history: History, lifetime: Lifetime | None
) -> tuple[str, ...]:
    """Make the tags that are new, oldest first; the names of those that were not there.

    Raises NotFoundError when a snapshot expires meanwhile.
    """
    names = []
    for duty in duties:
        if duty.state is State.NEW and duty.snapshot is not None:
            if create(target, duty.period.name, _tag(history, duty.snapshot), lifetime):
                names.append(duty.period.name)
        elif duty.current is not None:
            write_missing_success_files(target, [duty.period.name])
    return tuple(names)


def replace_others(
    sweeper: Sweeper,
    duties: Sequence[PeriodAction],
    lifetime: Lifetime | None,
    *,
    quarantine: bool,
    by_watermark: bool,
) -> dict[str, SweepResult]:
    """Let tags that stand for another snapshot stand for the right one, each at once; what that removed.

    A tag that alone holds what another one is to stand for moves after that one. Raises InvalidInputError
    when they wait for each other in a circle.
    """
    others = [duty for duty in duties if duty.state is State.OTHER]
    results: dict[str, SweepResult] = {}
    while others:
        history = read_history(sweeper.target, by_watermark=by_watermark)
        duty = next((one for one in others if _may_move(one, others, history)), None)
        if duty is None or duty.snapshot is None:
            names = ", ".join(one.period.name for one in others)
            raise InvalidInputError(
                f"tags {names} of {sweeper.target.name} each keep the snapshot that another of "
                "them is to name; create a tag of its own for one of these snapshots first "
                "(create-tag), then replace them"
            )
        parameters: dict[str, object] = {"tag": duty.period.name, "snapshot": duty.snapshot}
        root = _tag(history, duty.snapshot)
        name = duty.period.name
        results[name] = replace(name, root, lifetime, sweeper, quarantine=quarantine, parameters=parameters)
        others.remove(duty)
    return results


def _may_move(duty: PeriodAction, actions: Sequence[PeriodAction], history: History) -> bool:
    """Return whether a tag may be moved: what it holds is held by others too, or no other period waits for
    it.
    """
    if duty.snapshot is None or history.root(duty.snapshot) is None:
        return False
    waited = any(other.snapshot == duty.current for other in actions if other is not duty)
    root = history.root(duty.current or 0)
    by_snapshot = root is not None and root.kind is RootKind.SNAPSHOT
    holders = sum(snapshot == duty.current for snapshot in history.tags.values())
    return not waited or by_snapshot or holders > 1


def _tag(history: History, snapshot: int) -> Root:
    root = history.root(snapshot)
    if root is None:
        raise NotFoundError(f"snapshot {snapshot} was expired by another process; run again")
    return root


def _clock(root: Root, *, by_watermark: bool) -> int | None:
    return root.snapshot.watermark if by_watermark else root.snapshot.time_millis
