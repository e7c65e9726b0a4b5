"""Expiry of snapshots and changelogs as Airflow tasks."""

from __future__ import annotations

from typing import ClassVar

from operators.engine_chore import EngineChoreOperator

__all__ = ["ExpireChangelogsOperator", "ExpireSnapshotsOperator"]


class ExpireSnapshotsOperator(EngineChoreOperator):
    """Delete old snapshots and the files that only they need.

    :param retain_max: keep at most so many; None as the table's options say.
    :param retain_min: keep at least so many.
    :param older_than: date and time (UTC unless it says); younger ones go only for `retain_max`.
    :param max_deletes: expire at most so many in this run.
    :param options: table options for this run only.
    """

    doing = "expiring snapshots"
    module = "expire_snapshots"
    parameters: ClassVar = {
        "retain_max": "int",
        "retain_min": "int",
        "older_than": "moment",
        "max_deletes": "int",
        "options": "options",
    }


class ExpireChangelogsOperator(EngineChoreOperator):
    """Delete old changelogs that outlived their snapshots; parameters as for snapshots.

    :param delete_all: all of them, whatever the limits say.
    """

    doing = "expiring changelogs"
    module = "expire_changelogs"
    parameters: ClassVar = {**ExpireSnapshotsOperator.parameters, "delete_all": "bool"}
