"""Where the units of a task run: fields `engine`, `master` and `spark_conf` of an operator as an executor."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.exceptions import AirflowException

from operators.secrets import LakeTask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecore.executor import Executor
    from operators.hooks import LakeHook

__all__ = ["EngineTask", "open_executor"]


def open_executor(
    engine: str, master: str | None, conf: Mapping[str, Any] | None, hook: LakeHook, ends: ExitStack
) -> Executor:
    """The executor; `ends` ends a Spark session. Raises InvalidInputError for another engine."""
    from lakecore.errors import InvalidInputError
    from lakecore.executor import SerialExecutor

    if engine == "local":
        return SerialExecutor()
    if engine != "spark":
        raise InvalidInputError(f"engine {engine!r}: use spark or local")
    from lakecore.spark.executor import SparkExecutor

    return ends.enter_context(SparkExecutor(master=master or hook.spark_master(), conf=dict(conf or {})))


class EngineTask(LakeTask):
    """An operator whose units run on an engine, and that stops them when it is killed.

    `engine` (empty: `local`), `master` and `spark_conf` are its fields.
    """

    doing: ClassVar[str] = "at work"
    """What it is killed at, for people."""
    only_waits: ClassVar[bool] = False
    """Whether its main thread only waits for others, also on the local engine."""

    engine: str | None = None
    master: str | None = None
    spark_conf: Mapping[str, Any] | None = None
    _executor: Executor | None = None
    _killed: bool = False

    @contextmanager
    def workers(self, hook: LakeHook) -> Iterator[Executor]:
        """The executor; a Spark session begins with the first unit and ends here. Raises
        InvalidInputError.
        """
        with ExitStack() as ends:
            ends.callback(setattr, self, "_executor", None)
            self._executor = self._make_executor(hook, ends)
            yield self._executor

    def _make_executor(self, hook: LakeHook, ends: ExitStack) -> Executor:
        return open_executor(self.engine or "local", self.master or None, self.spark_conf, hook, ends)

    def on_kill(self) -> None:
        """Stop the units; what is committed stays, the rest leaves no files. Airflow kills hard 5 s later.

        Runs inside the signal handler of the task's main thread: that thread may hold the lock that a
        cancellation takes, so another one cancels. A unit of the local engine is in this very thread, and
        is ended by an exception; so is a wait for other threads.
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
            raise AirflowException(f"killed while {self.doing}: what is committed stays")
