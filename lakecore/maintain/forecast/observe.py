"""This module reads the values of a forecast: recent commits, the holder of the lease, the holders of old
files.
"""

from __future__ import annotations

from contextlib import suppress

from lakecore.errors import LakeError
from lakecore.maintain.forecast.plan import Environment, RecentCommit
from lakecore.maintain.lease.lease import holder
from lakecore.maintain.target import Target
from lakecore.maintain.why import expiry_blockers
from lakecore.metadata.options import WRITE_ONLY
from lakecore.metadata.snapshot import Snapshot

__all__ = ["observe"]

_LOOK_BACK = 32
_MARK = "lakecore."


def observe(target: Target) -> Environment:
    """Read the environment of a table. This costs up to 32 reads of snapshots and a read of all tags and
    branches; values that cannot be read are left out.
    """
    return Environment(
        now_ms=target.clock.now_ms(),
        commits=_commits(target),
        inline=bool(target.schema.primary_keys) and not WRITE_ONLY.read(target.schema.options),
        lease=holder(target.file_io, target.warehouse, target.name, target.clock.now_ms()),
        holders=_holders(target),
    )


def _commits(target: Target) -> tuple[RecentCommit, ...]:
    """Return the newest commits, down to the first that cannot be read."""
    commits: list[RecentCommit] = []
    with suppress(LakeError):
        at = target.snapshots.latest()
        while at is not None and len(commits) < _LOOK_BACK:
            commits.append(
                RecentCommit(time_ms=at.time_millis, kind=at.commit_kind.value, by_lakecore=_ours(at))
            )
            at = target.snapshots.find(at.id - 1) if at.id > 1 else None
    return tuple(commits)


def _ours(snapshot: Snapshot) -> bool:
    """Return whether lakecore made the commit: a compaction has its proof in the snapshot, and other commits
    have its name in their user.
    """
    marked = any(key.startswith(_MARK) for key in snapshot.properties or {})
    return marked or snapshot.commit_user.startswith("lakecore-")


def _holders(target: Target) -> tuple[str, ...]:
    try:
        return tuple(expiry_blockers(target))
    except LakeError:
        return ()
