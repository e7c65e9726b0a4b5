"""This module chooses the executor of the units of work, from `--engine`, `--master` and `--conf`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import typer

from lakecore.errors import InvalidInputError
from lakecore.executor import Executor, SerialExecutor

__all__ = ["CompactionEngine", "Engine", "EngineOptions", "SparkOptions", "executor", "key_values"]


class Engine(Enum):
    SPARK = "spark"
    LOCAL = "local"


class CompactionEngine(Enum):
    AUTO = "auto"
    SPARK = "spark"
    LOCAL = "local"


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
    engine: Engine, master: str | None, conf: Mapping[str, str], *, soon: bool = False
) -> Iterator[Executor]:
    """Open the executor. A Spark session starts with the first unit, or `soon` in the background, and is
    closed here.

    Raises InvalidInputError.
    """
    if engine is Engine.LOCAL:
        if master is not None or conf:
            raise InvalidInputError("--master and --conf are for --engine spark; leave them out")
        yield SerialExecutor()
        return
    if importlib.util.find_spec("pyspark") is None:
        raise InvalidInputError(
            "--engine spark needs pyspark: pip install 'lakecore[spark]', or use --engine local"
        )
    from lakecore.spark.executor import SparkExecutor

    with SparkExecutor(master=master, conf=conf) as spark:
        if soon:
            spark.begin()
        yield spark


@dataclass(frozen=True)
class SparkOptions:
    """These are the options of commands whose units run on Spark by default."""

    engine: Annotated[Engine, typer.Option(help="Run units here.")] = Engine.SPARK
    master: Annotated[str | None, typer.Option(help="Use this Spark master; by default local[*].")] = None
    conf: Annotated[list[str] | None, typer.Option(help="Set a property of Spark: key=value.")] = None

    def executor(self, *, soon: bool = False) -> AbstractContextManager[Executor]:
        """Open the executor, as `executor` does. Raises InvalidInputError."""
        return executor(self.engine, self.master, key_values(self.conf or [], "--conf"), soon=soon)


@dataclass(frozen=True)
class EngineOptions:
    """These are the options of compactions, which find out by themselves where they are sooner."""

    engine: Annotated[
        CompactionEngine,
        typer.Option(
            help="Run units here. `auto` plans first, and uses Spark if this process would need longer "
            "than the start of a Spark session; --master and --conf mean Spark."
        ),
    ] = CompactionEngine.AUTO
    master: Annotated[str | None, typer.Option(help="Use this Spark master; by default local[*].")] = None
    conf: Annotated[list[str] | None, typer.Option(help="Set a property of Spark: key=value.")] = None

    def executor(
        self, choose: Callable[[], Engine], *, soon: bool = False
    ) -> AbstractContextManager[Executor]:
        """Open the executor, as `executor` does; `choose` is asked where the user has not chosen. Raises
        InvalidInputError, and what `choose` raises.
        """
        conf = key_values(self.conf or [], "--conf")
        if self.engine is not CompactionEngine.AUTO:
            engine = Engine(self.engine.value)
        else:
            engine = Engine.SPARK if self.master is not None or conf else choose()
        return executor(engine, self.master, conf, soon=soon)
