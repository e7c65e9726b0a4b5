"""This module runs units on Spark: an RDD map of pickled bytes, results in order as they come, cancelled
as one job group.

A unit's own failure is a result, so Spark retries only what died (a killed Python worker, a lost executor).
Results travel in an accumulator: Spark delivers its updates when a task succeeds, once per task, long before
the whole job ends. How far a unit is before its end comes in datagrams (`unit_datagrams`).
"""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lakecore.clock import SystemClock
from lakecore.errors import UnavailableError
from lakecore.executor import unit_listener, with_cores
from lakecore.processes.unit_bytes import run_unit
from lakecore.spark.list_param import ListParam
from lakecore.spark.master import local_cores
from lakecore.spark.session import by_spark_submit, has_context, spark_context, stderr_capture
from lakecore.spark.unit_datagrams import DatagramAddress, UnitDatagrams
from lakecore.spark.unit_jobs import Inbox, NumberedResult, UnitJob, UnitJobs
from lakecore.spark.versions import cancel_group

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["SparkExecutor"]

logger = logging.getLogger(__name__)

A = TypeVar("A")
R = TypeVar("R")


class SparkExecutor:
    """It runs units on Spark. The context is the active one or is created at first use, in a thread of its
    own; `stop` ends only a context that was created here.
    """

    name = "spark"

    def __init__(self, master: str | None = None, conf: Mapping[str, str] | None = None) -> None:
        self._master = master
        self._conf = dict(conf or {})
        self._clock = SystemClock()
        self._starting: Future[SparkContext] | None = None
        self._context: SparkContext | None = None
        self._owned = False
        self._waited = 0.0
        self._jobs = UnitJobs("lakecore")
        self._datagrams: UnitDatagrams | None = None
        self._lock = threading.Lock()
        self._failed = False
        self._said_from = 0
        self._on_start: Callable[[float], None] | None = None

    def __enter__(self) -> SparkExecutor:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._failed |= kind is not None
        self.stop()

    @property
    def master(self) -> str:
        """Return the address of the master that is named, or Spark's default."""
        return self._conf.get("spark.master") or self._master or "local[*]"

    @property
    def local_cores(self) -> int | None:
        """Return the number of cores of a local session that this executor would start. None: it would have
        another master, or there is a context, or spark-submit chooses the master.
        """
        if by_spark_submit() or not self.starts_session:
            return None
        return local_cores(self.master)

    def begin(self, on_start: Callable[[float], None] | None = None) -> None:
        """Start the context now, while the caller goes on: it takes seconds, mostly of another process.

        `on_start` gets the seconds that the start took, in another thread, if the context is created here.
        Errors are raised by what needs the context first.
        """
        self._on_start = on_start
        self._begun()

    @property
    def parallelism(self) -> int:
        """Return the number of cores of the executors. It starts the context."""
        return int(self._spark().defaultParallelism)

    def session(self) -> SparkSession:
        """Return a session of the context, which is started if it is not."""
        from pyspark.sql import SparkSession

        self._spark()
        return SparkSession.builder.getOrCreate()

    @property
    def startup_seconds(self) -> float:
        """Return the seconds spent waiting for the context; 0 before, and when one was active already."""
        return self._waited

    @property
    def starts_session(self) -> bool:
        """Return whether its work starts, or has started, a session: not where the process had one before."""
        with self._lock:
            context, owned = self._context, self._owned
        return owned if context is not None else not has_context()

    @property
    def jvm_process(self) -> subprocess.Popen[bytes] | None:
        """Return the driver's JVM, or None before the context exists, and when another process started it."""
        process: subprocess.Popen[bytes] | None = getattr(
            getattr(self._context, "_gateway", None), "proc", None
        )
        return process

    def run(self, function: Callable[[A], R], tasks: Iterable[A]) -> Iterator[R | BaseException]:
        """Yield results in the order of `tasks`. A unit whose worker died on every try yields
        UnavailableError.

        Leaving the iterator early cancels what still runs.
        """
        payloads = [pickle.dumps((function, task)) for task in tasks]
        if not payloads or self._jobs.is_cancelled:
            return
        spark = self._spark()
        with self._datagrams_of(spark).address_for(unit_listener()) as address:
            yield from self._jobs.results(
                UnitJob(payloads, partial(_run_job, spark, address), partial(cancel_group, spark))
            )

    def _datagrams_of(self, spark: SparkContext) -> UnitDatagrams:
        """Return the receiver of this executor, at the address of the driver that executors know."""
        with self._lock:
            if self._datagrams is None:
                conf = spark.getConf()
                host = str(conf.get("spark.driver.host", "127.0.0.1"))
                self._datagrams = UnitDatagrams(host, conf.get("spark.driver.bindAddress"))
            return self._datagrams

    def check(self) -> None:
        """Raise UnavailableError if the context has ended: its JVM was killed, or the cluster ended the
        application. This process cannot start another one.
        """
        with self._lock:
            context = self._context
        if context is not None and _has_ended(context, self.jvm_process):
            self._failed = True
            raise UnavailableError(
                f"the Spark session on {context.master} has ended; see the log of Spark for the reason, and "
                "start this process again"
            )

    def cancel(self) -> None:
        """Stop running units; every later `run` yields nothing."""
        self._jobs.cancel()

    def stop(self) -> None:
        """End the context if this executor created it; one that is still starting ends as soon as it has
        started.

        After a failed run, what Spark wrote to standard error is printed to standard error now.
        """
        with self._lock:
            self._starting = None
            context, self._context = self._context, None
        if context is not None and self._owned:
            context.stop()
            self._tell_stderr()

    def _tell_stderr(self) -> None:
        capture = stderr_capture()
        message = "" if capture is None else capture.since(self._said_from)
        if self._failed or self._jobs.has_failed:
            sys.stderr.write(message)
            sys.stderr.flush()
        elif message:
            logger.debug("Spark wrote to its error output: %s", message)

    def _spark(self) -> SparkContext:
        starting = self._begun()
        began = self._clock.monotonic()
        try:
            return starting.result()
        finally:
            self._waited += self._clock.monotonic() - began

    def _begun(self) -> Future[SparkContext]:
        with self._lock:
            starting = self._starting
            if starting is None:
                self._starting = starting = Future()
                threading.Thread(target=self._start, args=(starting,), daemon=True).start()
            return starting

    def _start(self, starting: Future[SparkContext]) -> None:
        capture = stderr_capture()
        self._said_from = 0 if capture is None else capture.end()
        began = self._clock.monotonic()
        try:
            context, owned = spark_context(self._master, self._conf)
        except BaseException as err:  # noqa: BLE001 - the border of a thread: who waits raises it
            self._failed = True
            self._tell_stderr()
            with self._lock:
                self._starting = None if self._starting is starting else self._starting
            starting.set_exception(err)
            return
        with self._lock:
            is_current = self._starting is starting
            if is_current:
                self._context, self._owned = context, owned
        if owned and not is_current:
            context.stop()
        starting.set_result(context)
        if owned and self._on_start is not None:
            self._on_start(self._clock.monotonic() - began)


def _has_ended(spark: SparkContext, jvm: subprocess.Popen[bytes] | None) -> bool:
    if spark._jsc is None or (jvm is not None and jvm.poll() is not None):
        return True
    try:
        return bool(spark._jsc.sc().isStopped())
    except Exception:  # noqa: BLE001 - py4j raises several types when nobody answers
        return True


def _run_job(
    spark: SparkContext,
    address: DatagramAddress | None,
    group: str,
    payloads: Sequence[bytes],
    inbox: Inbox,
) -> None:
    """Run one job, a partition per unit. Units tell `address` how far they are."""
    spark.setJobGroup(group, f"lakecore: {len(payloads)} units", interruptOnCancel=True)
    results = spark.accumulator(_Results(inbox), ListParam())
    numbered = spark.parallelize(list(enumerate(payloads)), len(payloads))
    numbered.foreach(_Runner(results, address, _cores_of_task(spark)))


def _cores_of_task(spark: SparkContext) -> int:
    """Return how many cores a unit may use while others have nothing to do: in a local session, which has
    one machine, all of them; elsewhere those of a task.
    """
    if str(spark.master).startswith("local["):
        return int(spark.defaultParallelism)
    return int(spark.getConf().get("spark.task.cpus") or 1)


class _Results(list[NumberedResult]):
    """The value of the accumulator on the driver, which passes on what is added instead of keeping it."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__()
        self._inbox = inbox

    def __iadd__(self, results: Iterable[NumberedResult]) -> _Results:  # type: ignore[override, misc]
        for result in results:
            self._inbox.put(result)
        return self


class _Runner:
    """A function that runs one pickled unit on an executor and hands its pickled result to the
    accumulator.
    """

    def __init__(self, results: Any, address: DatagramAddress | None, cores: int) -> None:
        self._results = results
        self._address = address
        self._cores = cores

    def __call__(self, numbered: NumberedResult) -> None:
        number, payload = numbered
        send = None if self._address is None else self._address.send
        with with_cores(self._cores):
            self._results.add([(number, run_unit(payload, send))])
