"""This module decides which snapshot gets which automatic tag, and which tags are too many. Pure.

Times are of the wall clock of the rule's zone, in milliseconds, counted as if it were UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from lakecore.data_class import dataclass
from lakecore.scan.auto_tags import AutoTagNames

__all__ = ["AutoRule", "AutoTag", "CreationMode", "Moment", "NewTag", "is_due", "next_tags", "surplus"]


class CreationMode(Enum):
    """These are the values of the option tag.automatic-creation."""

    NONE = "none"
    PROCESS_TIME = "process-time"
    WATERMARK = "watermark"
    BATCH = "batch"

    @property
    def by_period(self) -> bool:
        """Return whether periods, not writes, make tags."""
        return self in (CreationMode.PROCESS_TIME, CreationMode.WATERMARK)


@dataclass(frozen=True, slots=True)
class AutoRule:
    """`delay_ms` is waited after the end of a period. With `completes` a late snapshot gets the tag that
    is due, not that of the period before its own.
    """

    names: AutoTagNames
    delay_ms: int = 0
    completes: bool = False


@dataclass(frozen=True, slots=True)
class AutoTag:
    """This tag has the name of an automatic one. `time_ms` is the time in the name."""

    name: str
    time_ms: int
    snapshot: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment is a snapshot and its time: that of its commit or its watermark; None where it has none."""

    snapshot: int
    time_ms: int | None


@dataclass(frozen=True, slots=True)
class NewTag:
    """This is a tag to be made."""

    name: str
    time_ms: int
    snapshot: int


def is_due(rule: AutoRule, newest: AutoTag | None, time_ms: int) -> bool:
    """Return whether a snapshot of that time would get a tag."""
    return newest is None or time_ms - rule.delay_ms >= newest.time_ms + 2 * rule.names.length_ms


def next_tags(rule: AutoRule, newest: AutoTag | None, moments: Sequence[Moment]) -> tuple[NewTag, ...]:
    """Return the tags to make, oldest first. `moments` are snapshots by id; those up to the newest tag's do
    not count.

    Spec: without a tag yet, the first snapshot with a time gets one; then each that lies `delay_ms` and a
    whole period after the due tag's time or later. Times without a name (before 1970) make none.
    """
    due = None if newest is None else newest.time_ms + rule.names.length_ms
    new_tags: list[NewTag] = []
    for moment in moments:
        time = moment.time_ms
        if time is None or (newest is not None and moment.snapshot <= newest.snapshot):
            continue
        if due is not None and time - rule.delay_ms < due + rule.names.length_ms:
            continue
        begun = rule.names.floor(time) - rule.names.length_ms
        if rule.completes and due is not None:
            begun = due
        name = rule.names.name_of(begun)
        if name is not None:
            new_tags.append(NewTag(name, begun, moment.snapshot))
            due = begun + rule.names.length_ms
    return tuple(new_tags)


def surplus(tags: Sequence[AutoTag], most: int | None) -> tuple[str, ...]:
    """Return the names of the tags beyond `most`, those of the oldest snapshots. With `most` None there is no
    limit.
    """
    if most is None or len(tags) <= most:
        return ()
    ordered = sorted(tags, key=lambda tag: (tag.snapshot, tag.time_ms))
    return tuple(tag.name for tag in ordered[: len(tags) - most])
