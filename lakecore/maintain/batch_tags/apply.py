"""Reads what is known of a branch's history, and makes and replaces the tags of periods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakecore.errors import InvalidInputError
from lakecore.maintain.auto_tags.options import MODE
from lakecore.maintain.batch_tags.plan import Duty, Point, Series, State
from lakecore.maintain.roots import Root, RootKind, read_roots
from lakecore.maintain.sweep import Sweeper, Swept
from lakecore.maintain.tags.apply import Lifetime, create, mark_missing, replace
from lakecore.maintain.target import Target
from lakecore.scan.auto_tags import AutoTagNames

__all__ = ["Known", "check_series", "make", "read_known", "replace_others"]


@dataclass(frozen=True)
class Known:
    """What is left of a history. `points`: by id. `roots`: of the snapshots that can be tagged.

    `tags`: names to snapshots.
    """

    points: tuple[Point, ...]
    roots: Mapping[int, Root]
    tags: Mapping[str, int]

    @property
    def newest_ms(self) -> int | None:
        """The highest time that a clock of the points has shown."""
        return max((p.clock_ms for p in self.points if p.clock_ms is not None), default=None)

    @property
    def oldest(self) -> Point | None:
        """The oldest snapshot that can be tagged."""
        return next((point for point in self.points if point.kept), None)


def read_known(target: Target, *, by_watermark: bool) -> Known:
    """Costs three listings and a small read of every snapshot, tag and changelog."""
    found = read_roots(target.file_io, target.paths)
    branch = target.paths.branch
    tags, snapshots = found.of(RootKind.TAG, branch), found.of(RootKind.SNAPSHOT, branch)
    changelogs = found.of(RootKind.CHANGELOG, branch)
    kept = {root.snapshot.id: root for root in (*tags, *snapshots)}
    known = {root.snapshot.id: root for root in (*changelogs, *kept.values())}
    points = tuple(
        Point(number, _clock(root, by_watermark=by_watermark), number in kept)
        for number, root in sorted(known.items())
    )
    return Known(points, kept, {root.name: root.snapshot.id for root in tags})


def check_series(target: Target, series: Series) -> None:
    """Raises InvalidInputError where the table makes tags of such names by itself, by another rule."""
    options = target.schema.options
    if not MODE.read(options).by_period:
        return
    names = AutoTagNames.from_options(options)
    if names.time_of(series.name_of(0)) is not None:
        raise InvalidInputError(
            f"{target.name} makes tags like {names.example} by itself ({MODE.key}): choose other names, "
            "as 'eod-{period}'"
        )


def make(target: Target, duties: Sequence[Duty], known: Known, lifetime: Lifetime | None) -> tuple[str, ...]:
    """Make the tags that are new, oldest first; the names of those that were not there.

    Raises NotFoundError when a snapshot expires meanwhile.
    """
    made = []
    for duty in duties:
        if duty.state is State.NEW and duty.snapshot is not None:
            if create(target, duty.period.name, known.roots[duty.snapshot], lifetime):
                made.append(duty.period.name)
        elif duty.found is not None:
            mark_missing(target, [duty.period.name])
    return tuple(made)


def replace_others(
    sweeper: Sweeper, duties: Sequence[Duty], lifetime: Lifetime | None, *, keeps: bool, by_watermark: bool
) -> dict[str, Swept]:
    """Let tags that stand for another snapshot stand for the right one, each at once; what that removed.

    A tag that alone holds what another one is to stand for moves after that one. Raises InvalidInputError
    when they wait for each other in a circle.
    """
    left = [duty for duty in duties if duty.state is State.OTHER]
    done: dict[str, Swept] = {}
    while left:
        known = read_known(sweeper.target, by_watermark=by_watermark)
        duty = next((one for one in left if _may_move(one, left, known)), None)
        if duty is None or duty.snapshot is None:
            names = ", ".join(one.period.name for one in left)
            raise InvalidInputError(
                f"tags {names} of {sweeper.target.name} each hold what another of them is to stand for: give "
                "one of these snapshots a tag of its own first (create-tag), then replace them"
            )
        parameters: dict[str, object] = {"tag": duty.period.name, "snapshot": duty.snapshot}
        root = known.roots[duty.snapshot]
        name = duty.period.name
        done[name] = replace(name, root, lifetime, sweeper, keeps=keeps, parameters=parameters)
        left.remove(duty)
    return done


def _may_move(duty: Duty, left: Sequence[Duty], known: Known) -> bool:
    """Whether what the tag holds is held by others too, or nobody waits for it."""
    if duty.snapshot not in known.roots:
        return False
    waited = any(other.snapshot == duty.found for other in left if other is not duty)
    root = known.roots.get(duty.found or 0)
    by_snapshot = root is not None and root.kind is RootKind.SNAPSHOT
    holders = sum(snapshot == duty.found for snapshot in known.tags.values())
    return not waited or by_snapshot or holders > 1


def _clock(root: Root, *, by_watermark: bool) -> int | None:
    return root.snapshot.watermark if by_watermark else root.snapshot.time_millis
