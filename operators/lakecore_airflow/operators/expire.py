"""This module has operators that expire snapshots and changelogs."""

from __future__ import annotations

from lakecore.jobs.definitions.expiry import ExpireChangelogs, ExpireSnapshots
from lakecore_airflow.tasks.engine_chore import EngineChoreOperator

__all__ = ["ExpireChangelogsOperator", "ExpireSnapshotsOperator"]


class ExpireSnapshotsOperator(EngineChoreOperator):
    """Expire old snapshots and delete the files that only they need.

    :param retain_max: keep at most this many snapshots; None takes the table's option.
    :param retain_min: keep at least this many snapshots.
    :param older_than: a date and time (UTC unless it has an offset); younger snapshots expire only because of
        `retain_max`.
    :param max_deletes: expire at most this many snapshots in one run.
    :param options: table options for this run only.
    """

    definition = ExpireSnapshots
    doing = "expiring snapshots"


class ExpireChangelogsOperator(EngineChoreOperator):
    """Expire old changelogs that outlived their snapshots; the parameters are those for snapshots.

    :param delete_all: expire all of them, regardless of the limits.
    """

    definition = ExpireChangelogs
    doing = "expiring changelogs"
