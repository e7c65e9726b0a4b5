"""This module retries changes of rows that were looked up: when others commit first, the rows are looked up
again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakecore.commit.retry import RetryPolicy
from lakecore.errors import CommitConflictError, LakeError, NotFoundError
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.table_stores import TableStores

__all__ = ["retry_on_conflict"]

T = TypeVar("T")


def retry_on_conflict(stores: TableStores, attempt: Callable[[Snapshot | None], T]) -> T:
    """Return what `attempt` returns for the latest snapshot; call it again for later ones while it raises
    CommitConflictError. When there are no snapshots any more, the table was dropped: the error of the last
    attempt is raised then.

    An attempt may also raise NotFoundError, when its snapshot expires meanwhile. The table's options
    `commit.*` limit the time and the number of retries; then the last CommitConflictError is raised.
    """
    policy, clock = RetryPolicy.from_options(stores.schema.options), stores.clock
    started = clock.monotonic()
    retry = 0
    snapshot = stores.snapshots.latest()
    while True:
        failure: LakeError
        try:
            return attempt(snapshot)
        except CommitConflictError as err:
            wait, failure = policy.wait_seconds(retry, (clock.monotonic() - started) * 1000, 0.5), err
            if wait is None:
                raise
        except NotFoundError as err:
            if snapshot is None or stores.snapshots.latest_id() == snapshot.id:
                raise
            wait, failure = 0.0, err  # the snapshot expired: there is a newer one
        clock.sleep(wait)
        before, snapshot = snapshot, stores.snapshots.latest()
        if before is not None and snapshot is None:
            raise failure
        retry += 1
