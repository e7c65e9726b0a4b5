"""This module creates the executor of a task's units, from the operator's fields `engine`, `master` and
`spark_conf`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from lakecore_airflow.airflow_names import AirflowException
from lakecore_airflow.secrets import LakeTask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecore.executor import Executor
    from lakecore.jobs.engines.engine_choice import Engines
    from lakecore_airflow.hooks import LakeHook

__all__ = ["AUTO", "EngineTask", "open_engines", "open_executor"]

AUTO = "auto"
"""The forecast of the work chooses the engine."""


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
        raise InvalidInputError(
            f"engine {engine!r}: use spark or local; auto is for jobs that rewrite or analyze a table"
        )
    from lakecore.spark.engine import spark_executor

    spark = spark_executor(master or hook.spark_master(), dict(conf or {}))
    ends.enter_context(spark)
    return spark


def open_engines(
    master: str | None, conf: Mapping[str, Any] | None, hook: LakeHook, ends: ExitStack
) -> Engines:
    """Open the engines of which each table gets one; `ends` closes a Spark session at the end."""
    from lakecore.jobs.engines.engine_choice import Engines
    from lakecore.spark.engine import new_start_check, spark_executor

    address, settings = master or hook.spark_master(), dict(conf or {})
    spark = spark_executor(address, settings)
    ends.enter_context(spark)
    return Engines(spark, new_start_check(address, settings))


class EngineTask(LakeTask):
    """This operator runs its units on an engine and stops them when it is killed.

    `engine` (empty: `local`), `master` and `spark_conf` are its fields.
    """

    doing: ClassVar[str] = "at work"
    """This is the name of its work in the message of a killed task."""
    takes_auto: ClassVar[bool] = False
    """It tells whether the engine may be `auto`: its job chooses by a forecast."""
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

    @contextmanager
    def engines(self, hook: LakeHook) -> Iterator[Executor | Engines]:
        """Open the executor, or with `auto` the engines of which each table gets one. Raises
        InvalidInputError.
        """
        if self.engine != AUTO:
            with self.workers(hook) as executor:
                yield executor
            return
        with ExitStack() as ends:
            ends.callback(setattr, self, "_executor", None)
            engines = open_engines(self.master or None, self.spark_conf, hook, ends)
            self._executor = engines.for_table()  # stops both of them when the task is killed
            yield engines

    def _make_executor(self, hook: LakeHook, ends: ExitStack) -> Executor:
        if self.engine == AUTO and self.takes_auto:
            return open_engines(self.master or None, self.spark_conf, hook, ends).for_table()
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
