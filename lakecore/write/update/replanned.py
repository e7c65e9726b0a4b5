"""Changes of rows that were looked up: when others commit first, the rows are looked up again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from lakecore.clock import Clock
from lakecore.commit.retry import RetryPolicy
from lakecore.errors import CommitConflictError, NotFoundError
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.snapshots import SnapshotStore

__all__ = ["replanned"]

T = TypeVar("T")


def replanned(
    snapshots: SnapshotStore,
    options: Mapping[str, str],
    clock: Clock,
    attempt: Callable[[Snapshot | None], T],
) -> T:
    """What `attempt` gives for the latest snapshot; again for later ones while it raises CommitConflictError.

    An attempt may raise NotFoundError, too, when the snapshot it works on expires meanwhile. `options`: of
    the table, for how long and how often (`commit.*`); then the last CommitConflictError is raised.
    """
    policy = RetryPolicy.from_options(options)
    started = clock.monotonic()
    retry = 0
    while True:
        snapshot = snapshots.latest()
        try:
            return attempt(snapshot)
        except CommitConflictError:
            wait = policy.wait_seconds(retry, (clock.monotonic() - started) * 1000, 0.5)
            if wait is None:
                raise
        except NotFoundError:
            if snapshot is None or snapshots.latest_id() == snapshot.id:
                raise
            wait = 0.0  # the snapshot expired: there is a newer one
        clock.sleep(wait)
        retry += 1
