"""This module chooses the executor of the units of work, from `--engine`, `--master` and `--conf`."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, LakeError
from lakecore.executor import Executor

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lakecore.jobs.engines.engine_choice import Engines

__all__ = ["CompactionEngine", "Engine", "EngineOptions", "SparkOptions", "executor", "key_values"]

logger = logging.getLogger(__name__)


class Engine(Enum):
    SPARK = "spark"
    LOCAL = "local"


class CompactionEngine(Enum):
    AUTO = "auto"
    SPARK = "spark"
    LOCAL = "local"


Master = Annotated[
    str | None,
    typer.Option(
        help="Use this Spark master, or Spark Connect server (sc://host:15002); by default local[*]."
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Run so many units of the local engine at once, each in a process; by default one for each "
        "core, at most 4.",
    ),
]


def key_values(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Parse `["k=v"]` to {"k": "v"}. Raises InvalidInputError naming the pair without `=`."""
    out: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InvalidInputError(f"{option} {pair!r}: write key=value")
        out[key.strip()] = value.strip()
    return out


@contextmanager
def executor(
    engine: Engine,
    master: str | None,
    conf: Mapping[str, str],
    *,
    soon: bool = False,
    processes: int | None = None,
) -> Iterator[Executor]:
    """Open the executor. A Spark session starts with the first unit, or `soon` in the background, and is
    closed here. `processes` are those of the local engine; `soon` forks its workers, too, before the caller
    opens anything.

    Raises InvalidInputError.
    """
    if engine is Engine.LOCAL:
        if master is not None or conf:
            raise InvalidInputError("--master and --conf are for --engine spark; leave them out")
        with _own_processes(processes, forks=soon) as local:
            yield local
        return
    if processes is not None:
        raise InvalidInputError(
            "--processes is for units on this machine: write --engine local, or name the cores of Spark by "
            "--master 'local[2]'"
        )
    if importlib.util.find_spec("pyspark") is None:
        raise InvalidInputError(
            "--engine spark needs pyspark: pip install 'lakecore[spark]', or use --engine local"
        )
    from lakecore.spark.engine import spark_executor

    with spark_executor(master, conf) as spark:
        if soon:
            spark.begin()
        yield spark


def _own_processes(processes: int | None, *, forks: bool) -> AbstractContextManager[Executor]:
    """Open the local engine. Forked workers have what is imported before, so that the modules of compactions
    come first.
    """
    from lakecore.processes.executor import ProcessExecutor

    if forks:
        from lakecore.jobs import compact  # noqa: F401
    return ProcessExecutor(processes, forks=forks)


@dataclass(frozen=True)
class SparkOptions:
    """These are the options of commands whose units run on Spark by default."""

    engine: Annotated[Engine, typer.Option(help="Run units here.")] = Engine.SPARK
    master: Master = None
    conf: Annotated[list[str] | None, typer.Option(help="Set a property of Spark: key=value.")] = None
    processes: Processes = None

    def executor(self, *, soon: bool = False) -> AbstractContextManager[Executor]:
        """Open the executor, as `executor` does. Raises InvalidInputError."""
        conf = key_values(self.conf or [], "--conf")
        return executor(self.engine, self.master, conf, soon=soon, processes=self.processes)


@dataclass(frozen=True)
class EngineOptions:
    """These are the options of jobs that find out by themselves where they are sooner."""

    engine: Annotated[
        CompactionEngine,
        typer.Option(
            help="Run units here. `auto` plans first, and uses Spark from the table on with which processes "
            "of this machine would end later than Spark, whose session must start; --master and --conf mean "
            "Spark."
        ),
    ] = CompactionEngine.AUTO
    master: Master = None
    conf: Annotated[list[str] | None, typer.Option(help="Set a property of Spark: key=value.")] = None
    processes: Processes = None

    def executor(self, *, soon: bool = False) -> AbstractContextManager[Executor]:
        """Open the executor for many rounds, as `executor` does. Where the user has not chosen, that is Spark
        if it can start. Raises InvalidInputError.
        """
        return self._executor(self._named_engine() or _installed_engine(), soon=soon)

    @contextmanager
    def executors(self, *, soon: bool) -> Iterator[Executor | Engines]:
        """Open the executor, or where the user has not chosen, the engines of which each table gets one. A
        session that the user has chosen, and local workers, start `soon`, or with the first unit; nothing may
        be open before. Raises InvalidInputError.
        """
        engine = self._named_engine()
        if engine is not None:
            with self._executor(engine, soon=soon) as workers:
                yield workers
            return
        from lakecore.jobs.engines.engine_choice import Engines
        from lakecore.spark.engine import new_start_check, spark_executor

        with _own_processes(self.processes, forks=soon) as local, spark_executor() as spark:
            yield Engines(spark, new_start_check(), local)

    def _executor(self, engine: Engine, *, soon: bool) -> AbstractContextManager[Executor]:
        return executor(engine, self.master, self._conf(), soon=soon, processes=self.processes)

    def _named_engine(self) -> Engine | None:
        if self.engine is not CompactionEngine.AUTO:
            return Engine(self.engine.value)
        return Engine.SPARK if self.master is not None or self.conf else None

    def _conf(self) -> dict[str, str]:
        return key_values(self.conf or [], "--conf")


def _installed_engine() -> Engine:
    """Return Spark where it can start: its session serves many rounds."""
    from lakecore.spark.engine import new_start_check

    try:
        new_start_check()()
    except LakeError as err:
        logger.info("engine local: %s", err)
        return Engine.LOCAL
    return Engine.SPARK
