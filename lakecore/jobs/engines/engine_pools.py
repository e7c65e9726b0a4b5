"""This module has the pools of units that many tables share: one for each engine."""

from __future__ import annotations

from contextlib import ExitStack

from lakecore.compact.pool.pool import TableExecutor, UnitPool
from lakecore.executor import Executor
from lakecore.jobs.engines.engine_choice import Engines

__all__ = ["EnginePools"]


class EnginePools:
    """It has the pools of units that the tables of a job share: one for each engine."""

    def __init__(self, engines: Executor | Engines, ends: ExitStack) -> None:
        """Open the pools, which `ends` closes."""
        self._engines = engines if isinstance(engines, Engines) else None
        executors = (engines.local, engines.spark) if isinstance(engines, Engines) else (engines,)
        self._pools = [ends.enter_context(UnitPool(one)) for one in executors]

    @property
    def name(self) -> str:
        """Return the engine of a table of which nothing is known."""
        return self._pools[0].engine.name

    def for_table(self) -> Executor:
        """Return the executor of one table."""
        shares = [TableExecutor(pool) for pool in self._pools]
        return shares[0] if self._engines is None else self._engines.for_table(*shares)

    def cancel(self) -> None:
        for pool in self._pools:
            pool.cancel()
