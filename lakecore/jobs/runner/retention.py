"""This module decides how long a run keeps snapshots and changelogs: the job's parameters override the
table's options.
"""

from __future__ import annotations

from typing import Protocol

from lakecore.data_class import dataclass
from lakecore.maintain.expire_snapshots.plan import Retention
from lakecore.maintain.retention_options import (
    CHANGELOG_MAX,
    CHANGELOG_MIN,
    CHANGELOG_TIME,
    EXPIRE_LIMIT,
    SNAPSHOT_MAX,
    SNAPSHOT_MIN,
    SNAPSHOT_TIME,
)
from lakecore.maintain.target import Target

__all__ = ["NO_LIMITS", "changelog_retention", "changelogs_live_longer", "snapshot_retention"]


class RetentionLimits(Protocol):
    """These are the parameters that expiring snapshots and changelogs have in common."""

    @property
    def retain_max(self) -> int | None: ...

    @property
    def retain_min(self) -> int | None: ...

    @property
    def older_than_ms(self) -> int | None: ...

    @property
    def max_deletes(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class _NoLimits:
    """A job without limits of its own."""

    retain_max: int | None = None
    retain_min: int | None = None
    older_than_ms: int | None = None
    max_deletes: int | None = None


NO_LIMITS: RetentionLimits = _NoLimits()
"""This job has no limits of its own, so that those of the table count."""


def snapshot_retention(job: RetentionLimits, target: Target, *, by_successor: bool = False) -> Retention:
    """Return the retention of snapshots. Raises InvalidInputError for limits that contradict each other."""
    raw = target.schema.options
    older_than = job.older_than_ms
    return Retention(
        retain_max=SNAPSHOT_MAX.read(raw) if job.retain_max is None else job.retain_max,
        retain_min=SNAPSHOT_MIN.read(raw) if job.retain_min is None else job.retain_min,
        older_than_ms=target.clock.now_ms() - SNAPSHOT_TIME.read(raw) if older_than is None else older_than,
        max_deletes=EXPIRE_LIMIT.read(raw) if job.max_deletes is None else job.max_deletes,
        by_successor=by_successor,
    )


def changelogs_live_longer(snapshots: Retention, target: Target) -> bool:
    """Return whether changelogs outlive their snapshots. By the rule of the format any `changelog.*` limit
    beyond that of snapshots makes them do so.
    """
    raw = target.schema.options
    most, least, time = CHANGELOG_MAX.read(raw), CHANGELOG_MIN.read(raw), CHANGELOG_TIME.read(raw)
    return (
        (most is not None and most > snapshots.retain_max)
        or (least is not None and least > snapshots.retain_min)
        or (time is not None and time > target.clock.now_ms() - snapshots.older_than_ms)
    )


def changelog_retention(job: RetentionLimits, target: Target) -> Retention:
    """Return the retention of changelogs that outlive snapshots: `changelog.*`, by default that of
    snapshots.
    """
    raw = target.schema.options
    most, least, time = CHANGELOG_MAX.read(raw), CHANGELOG_MIN.read(raw), CHANGELOG_TIME.read(raw)
    most = SNAPSHOT_MAX.read(raw) if most is None else most
    least = SNAPSHOT_MIN.read(raw) if least is None else least
    time = SNAPSHOT_TIME.read(raw) if time is None else time
    return Retention(
        retain_max=most if job.retain_max is None else job.retain_max,
        retain_min=least if job.retain_min is None else job.retain_min,
        older_than_ms=target.clock.now_ms() - time if job.older_than_ms is None else job.older_than_ms,
        max_deletes=EXPIRE_LIMIT.read(raw) if job.max_deletes is None else job.max_deletes,
    )
