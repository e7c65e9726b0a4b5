"""This module creates the executor of a task's units, from the operator's fields `engine`, `master` and
`spark_conf`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.exceptions import AirflowException

from lakecore_airflow.secrets import LakeTask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecore.executor import Executor
    from lakecore_airflow.hooks import LakeHook

__all__ = ["EngineTask", "open_executor"]


def open_executor(
    engine: str, master: str | None, conf: Mapping[str, Any] | None, hook: LakeHook, ends: ExitStack
) -> Executor:
    """Open the executor; `ends` closes a Spark session at the end. Raises InvalidInputError for another
    engine.
    """
    from lakecore.errors import InvalidInputError
    from lakecore.executor import SerialExecutor

    if engine == "local":
        return SerialExecutor()
    if engine != "spark":
        raise InvalidInputError(f"engine {engine!r}: use spark or local, or auto where a table is compacted")
    from lakecore.spark.executor import SparkExecutor

    return ends.enter_context(SparkExecutor(master=master or hook.spark_master(), conf=dict(conf or {})))


class EngineTask(LakeTask):
    """This operator runs its units on an engine and stops them when it is killed.

    `engine` (empty: `local`), `master` and `spark_conf` are its fields.
    """

    doing: ClassVar[str] = "at work"
    """This is the name of its work in the message of a killed task."""
    only_waits: ClassVar[bool] = False
    """It tells whether its main thread only waits for other threads, also on the local engine."""

    engine: str | None = None
    master: str | None = None
    spark_conf: Mapping[str, Any] | None = None
    _executor: Executor | None = None
    _killed: bool = False

    @contextmanager
    def workers(self, hook: LakeHook) -> Iterator[Executor]:
        """Open the executor. A Spark session starts with the first unit and is closed here. Raises
        InvalidInputError.
        """
        with ExitStack() as ends:
            ends.callback(setattr, self, "_executor", None)
            self._executor = self._make_executor(hook, ends)
            yield self._executor

    def _make_executor(self, hook: LakeHook, ends: ExitStack) -> Executor:
        return open_executor(self.engine or "local", self.master or None, self.spark_conf, hook, ends)

    def on_kill(self) -> None:
        """Stop the units. What is committed stays, and the rest leaves no files. Airflow kills the process 5
        s later.

        This runs inside the signal handler of the task's main thread. That thread may hold the lock that a
        cancellation takes, so another thread cancels. A unit of the local engine runs in the main thread and
        is ended by an exception, and so is a wait for other threads.
        """
        executor = self._executor
        if executor is None:
            return
        self._killed = True
        here = executor.name == "local" and not self.only_waits
        if here:
            executor.cancel()
        else:
            threading.Thread(target=executor.cancel, name="lakecore-cancel", daemon=True).start()
        if here or self.only_waits:
            raise AirflowException(f"killed while {self.doing}: what was committed remains")
