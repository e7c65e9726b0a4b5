"""Where the units of a task run: fields `engine`, `master` and `spark_conf` of an operator as an executor."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecore.executor import Executor
    from operators.hooks import LakeHook

__all__ = ["open_executor"]


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
