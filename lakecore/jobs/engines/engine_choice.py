"""This module chooses where each table of a job is compacted: in processes of this machine, or on Spark.

A Spark session takes seconds before its first unit. What takes less without Spark is sooner there, and so is
all work where the session would have no more cores than the processes of this machine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol, TypeVar

from lakecore.data_class import dataclass
from lakecore.errors import LakeError
from lakecore.executor import Executor, SerialExecutor

__all__ = ["SPARK_STARTS_S", "ChosenExecutor", "EngineChoice", "Engines", "SessionExecutor", "StartTimes"]

SPARK_STARTS_S = 6.0
"""A session with its first worker takes about so many seconds to start (two cores, a warm disk); it counts
where no start was measured.
"""

A = TypeVar("A")
R = TypeVar("R")


class SessionExecutor(Executor, Protocol):
    """It runs units in a session that takes seconds to start."""

    @property
    def master(self) -> str:
        """Return the address of the master or server, without secrets."""

    @property
    def local_cores(self) -> int | None:
        """Return how many cores a session has that runs on this machine alone; None if it has others."""

    def begin(self, on_start: Callable[[float], None] | None = None) -> None:
        """Start the session now, while the caller goes on. `on_start` gets the seconds that the start took,
        in another thread.
        """


class StartTimes(Protocol):
    """It knows how long sessions took to start."""

    def seconds(self, master: str) -> float:
        """Return how long the start on this master takes."""

    def add(self, master: str, seconds: float) -> None:
        """Record a start."""


class _AssumedTimes:
    """It knows of no start."""

    def seconds(self, master: str) -> float:
        return SPARK_STARTS_S

    def add(self, master: str, seconds: float) -> None:
        """Forget the time."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The choice has the engine, `local` or `spark`, and the reason for it as a sentence."""

    engine: str
    reason: str


class Engines:
    """It chooses the engine of each table of a job. Several threads may ask.

    Tables are compacted on the local engine until their forecasts together are longer than the start of a
    Spark session. That table and all later ones go to Spark, whose session starts then, once. A session on
    this machine does the same work after its start, divided among its cores; one on a cluster may have any
    number of them, so that its work counts as nothing.
    """

    def __init__(
        self, spark: SessionExecutor, find_spark: Callable[[], object], local: Executor | None = None
    ) -> None:
        """Create the engines. `spark` starts its session at first use; `find_spark` raises a LakeError where
        no session can start. `local` is by default this process alone.
        """
        self.local = local or SerialExecutor()
        self.spark = spark
        self._find_spark = find_spark
        self._lock = threading.Lock()
        self._seconds = 0.0
        self._start_seconds: float | None = None
        self._choice: EngineChoice | None = None

    @property
    def choice(self) -> EngineChoice | None:
        """Return the choice for every further table, whatever its forecast is; None while forecasts count."""
        return self._choice

    def choose(self, seconds: float, starts: StartTimes | None = None) -> EngineChoice:
        """Return the engine of a table that takes so long on the local engine. `starts` has the earlier
        starts of sessions, and gets the time of one that starts now.
        """
        times = starts or _AssumedTimes()
        with self._lock:
            if self._choice is not None:
                return self._choice
            earlier, self._seconds = self._seconds, self._seconds + seconds
            start = self._start(times)
            if self._seconds <= self._on_spark(self._seconds, start):
                return EngineChoice("local", self._short(seconds, earlier, start))
            problem = _problem(self._find_spark)
            if problem:
                self._choice = EngineChoice("local", f"Spark cannot start here: {problem}")
                return self._choice
            self.spark.begin(partial(times.add, self.spark.master))
            self._choice = EngineChoice("spark", "a Spark session runs for an earlier table")
            return EngineChoice("spark", _long(seconds, earlier))

    def _start(self, times: StartTimes) -> float:
        """Return how long a session takes to start. The times are read once."""
        if self._start_seconds is None:
            self._start_seconds = times.seconds(self.spark.master)
        return self._start_seconds

    def _on_spark(self, seconds: float, start: float) -> float:
        """Return how long Spark takes, with the start of its session, for what takes so long on the local
        engine. The work of a cluster counts as nothing.
        """
        cores = self.spark.local_cores
        return start if cores is None else start + seconds * min(1.0, self.local.parallelism / cores)

    def _short(self, seconds: float, earlier: float, start: float) -> str:
        """Return the reason why the local engine is sooner for a table and those before it."""
        together = seconds + earlier
        forecast = f"the forecast is {seconds:.1f} s" + (
            f", {together:.1f} s with the tables before it" if earlier else ""
        )
        if together <= start:
            return f"{forecast}, and a Spark session alone takes some {start:.0f} s"
        return (
            f"{forecast}, and Spark would need some {self._on_spark(together, start):.0f} s on this machine"
        )

    def preview(self, seconds: float, starts: StartTimes | None = None) -> EngineChoice:
        """Return the engine that a table by itself would get. No session starts, and no later choice
        depends on it.
        """
        if self._choice is not None:
            return self._choice
        start = self._start(starts or _AssumedTimes())
        if seconds <= self._on_spark(seconds, start):
            return EngineChoice("local", self._short(seconds, 0.0, start))
        problem = _problem(self._find_spark)
        if problem:
            return EngineChoice("local", f"Spark cannot start here: {problem}")
        return EngineChoice(self.spark.name, _long(seconds, 0.0))

    def for_table(self, local: Executor | None = None, spark: Executor | None = None) -> ChosenExecutor:
        """Return the executor of one table. `local` and `spark` are its shares of the two engines; without
        them it has the engines for itself.
        """
        return ChosenExecutor(self, local or self.local, spark or self.spark)


class ChosenExecutor:
    """This is the executor of one table: the local one, until `choose` has chosen Spark."""

    def __init__(self, engines: Engines, local: Executor, spark: Executor) -> None:
        self._engines = engines
        self._local = self._inner = local
        self._spark = spark
        self._spark_waited = 0.0
        self.reason = ""
        """It says why the engine was chosen; it is empty before."""
        if engines.choice is not None:
            self._take(engines.choice)

    @property
    def local_parallelism(self) -> int:
        """Return the number of units that the local engine runs at once."""
        return self._local.parallelism

    @property
    def needs_forecast(self) -> bool:
        """Return whether the engine depends on how long the table takes."""
        return not self.reason

    @property
    def master(self) -> str:
        """Return the address of the master of Spark, without secrets."""
        return self._engines.spark.master

    def preview(self, seconds: float, starts: StartTimes | None = None) -> EngineChoice:
        """Return what `choose` would choose for the table by itself; nothing changes."""
        return self._engines.preview(seconds, starts)

    def choose(self, seconds: float, starts: StartTimes | None = None) -> None:
        """Choose the engine for a table that takes so long on the local engine. Nothing may run yet."""
        self._take(self._engines.choose(seconds, starts))

    def _take(self, choice: EngineChoice) -> None:
        self.reason = choice.reason
        if choice.engine == self._spark.name:
            self._spark_waited = self._spark.startup_seconds
            self._inner = self._spark

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def parallelism(self) -> int:
        return self._inner.parallelism

    @property
    def startup_seconds(self) -> float:
        """Return the seconds that this table waited for the start of the session."""
        return self._inner.startup_seconds - self._spark_waited

    def run(self, function: Callable[[A], R], tasks: Iterable[A]) -> Iterator[R | BaseException]:
        return self._inner.run(function, tasks)

    def check(self) -> None:
        """Raise UnavailableError if one of the engines has ended."""
        self._local.check()
        self._spark.check()

    def cancel(self) -> None:
        """Stop the units on both engines."""
        self._local.cancel()
        self._spark.cancel()


def _long(seconds: float, earlier: float) -> str:
    if not earlier:
        return f"the forecast without Spark is {seconds:.0f} s"
    return f"the forecast without Spark is {seconds + earlier:.0f} s with the tables before it"


def _problem(find_spark: Callable[[], object]) -> str:
    """Return why Spark cannot start; the text is empty where it can."""
    try:
        find_spark()
    except LakeError as err:
        return str(err)
    return ""
