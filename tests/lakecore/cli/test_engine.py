"""Options of engines that contradict each other are refused; the local engine has the processes that it was given."""

from __future__ import annotations

import pytest

from lakecore.cli.engine import CompactionEngine, Engine, EngineOptions, SparkOptions
from lakecore.errors import InvalidInputError
from lakecore.jobs.engines.engine_choice import Engines


def test_local_engines_have_the_processes_that_were_named() -> None:
    with EngineOptions(CompactionEngine.AUTO, processes=3).executors(soon=True) as engines:
        assert isinstance(engines, Engines)
        assert engines.for_table().local_parallelism == 3
    with SparkOptions(Engine.LOCAL, processes=3).executor() as executor:
        assert (executor.name, executor.parallelism) == ("local", 3)


@pytest.mark.parametrize("options", [SparkOptions(Engine.SPARK, processes=2), SparkOptions(processes=2)])
def test_processes_on_spark_are_refused(options: SparkOptions) -> None:
    with pytest.raises(InvalidInputError, match="--engine local"), options.executor():
        pass


def test_a_master_means_spark_so_that_processes_are_refused() -> None:
    options = EngineOptions(CompactionEngine.AUTO, master="local[2]", processes=2)
    with pytest.raises(InvalidInputError, match="--processes"), options.executors(soon=True):
        pass
