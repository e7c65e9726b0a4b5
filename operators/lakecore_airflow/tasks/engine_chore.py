"""This module has the base of chores whose units may run on executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from lakecore_airflow.tasks.chore import ChoreOperator
from lakecore_airflow.tasks.engine import EngineTask

__all__ = ["EngineChoreOperator"]


class EngineChoreOperator(EngineTask, ChoreOperator):
    """This is a chore whose units may run on many executors. In a policy the task that runs the policy
    chooses the engine.

    :param engine: `spark`; None or `local`: in the task's own process. (templated)
    :param master: Spark master; None: the connection's, else `local[*]`. (templated)
    """

    settings: ClassVar[Mapping[str, Any]] = {"engine": None, "master": None}
    words: ClassVar[Mapping[str, Sequence[str]]] = {"engine": ("spark", "local")}
