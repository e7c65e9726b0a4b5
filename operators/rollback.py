"""Operators that roll a table back to an older state."""

from __future__ import annotations

from typing import ClassVar

from operators.chore import ChoreOperator

__all__ = ["RollbackToAsLatestOperator", "RollbackToOperator"]


class RollbackToOperator(ChoreOperator):
    """Roll back to an older state: give exactly one of `snapshot`, `tag`, `timestamp`, `watermark`. Stop the
    writers first.
    """

    module = "versions.rollback"
    job = "RollbackTo"
    parameters: ClassVar = {"snapshot": "int", "tag": "text", "timestamp": "moment", "watermark": "int"}


class RollbackToAsLatestOperator(ChoreOperator):
    """Commit an older state as the newest snapshot; nothing is removed. A retry finds the commit of the first
    try.

    :param snapshot: the state, unless `tag` names it.
    """

    module = "versions.rollback"
    job = "RollbackToAsLatest"
    repeatable = True
    parameters: ClassVar = {"snapshot": "int", "tag": "text"}
