"""Chores whose work may run on executors."""

from __future__ import annotations

from operators.chore import ChoreOperator
from operators.engine import EngineTask

__all__ = ["EngineChoreOperator"]


class EngineChoreOperator(EngineTask, ChoreOperator):
    """A chore with work for many executors; in a policy the task that follows it says where that runs.

    :param engine: `spark`; None or `local`: in the task's own process. (templated)
    :param master: Spark master; None: the connection's, else `local[*]`. (templated)
    """

    settings = ("engine", "master")
