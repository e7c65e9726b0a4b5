"""Operators that expire snapshots and changelogs."""

from __future__ import annotations

from typing import ClassVar

from operators.engine_chore import EngineChoreOperator

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
    """Expire old changelogs that outlived their snapshots; the parameters are those for snapshots.

    :param delete_all: expire all of them, whatever the limits say.
    """

    doing = "expiring changelogs"
    module = "expire_changelogs"
    parameters: ClassVar = {**ExpireSnapshotsOperator.parameters, "delete_all": "bool"}
