"""This module has operators that roll a table back to an older state."""

from __future__ import annotations

from lakecore.jobs.definitions.versions import RollbackTo, RollbackToAsLatest
from lakecore_airflow.tasks.chore import ChoreOperator

__all__ = ["RollbackToAsLatestOperator", "RollbackToOperator"]


class RollbackToOperator(ChoreOperator):
    """Roll back to an older state: give exactly one of `snapshot`, `tag`, `timestamp`, `watermark`. Stop the
    writers first.
    """

    definition = RollbackTo


class RollbackToAsLatestOperator(ChoreOperator):
    """Commit an older state as the newest snapshot; nothing is removed. A retry finds the commit of the first
    try.

    :param snapshot: the state, unless `tag` names it.
    """

    definition = RollbackToAsLatest
    repeatable = True
