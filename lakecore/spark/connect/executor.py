"""This module runs units on a Spark Connect server: they are rows of a DataFrame, each is a task, and their
results come in their order. A tag names their operation, by which it is interrupted.

A unit's own failure is a result, as with `SparkExecutor`. What Spark Connect lacks: the result of a unit
comes only after those of all units before it, and a process that is killed leaves its operation running
until the server misses its client (5 min by default).
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lakecore.clock import SystemClock
from lakecore.errors import InvalidInputError, UnavailableError
from lakecore.executor import unit_listener
from lakecore.spark.connect.address import without_parameters
from lakecore.spark.connect.session import (
    ConnectSession,
    has_no_session,
    is_connection_error,
    open_session,
    use_session,
)
from lakecore.spark.connect.unit_tasks import check_sizes, operations_of, results_of
from lakecore.spark.unit_datagrams import DatagramAddress, UnitDatagrams, address_towards
from lakecore.spark.unit_jobs import Inbox, UnitJob, UnitJobs

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

__all__ = ["ConnectExecutor"]

A = TypeVar("A")
R = TypeVar("R")

_INTERRUPT_AGAIN_SECONDS = 0.2


class ConnectExecutor:
    """It runs units on a Spark Connect server. A session is opened at first use, in a thread of its own, and
    again when the server was started anew or has forgotten it; `stop` closes it. A session that the caller
    gives stays open.
    """

    name = "spark"

    def __init__(self, server: str | SparkSession, conf: Mapping[str, str] | None = None) -> None:
        """Create the executor. `server` is an address `sc://host:port` or an open session; `conf` has
        properties of the session that is opened. Raises InvalidInputError.
        """
        if not isinstance(server, str) and conf:
            raise InvalidInputError("properties of Spark are for a session that is opened: set them yourself")
        self._server = server
        self._conf = dict(conf or {})
        self._clock = SystemClock()
        self._opening: Future[ConnectSession] | None = None
        self._waited = 0.0
        self._on_start: Callable[[float], None] | None = None
        self._jobs = UnitJobs("lakecore")
        self._datagrams: UnitDatagrams | None = None
        self._lock = threading.Lock()
        self._loss: UnavailableError | None = None

    def __enter__(self) -> ConnectExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def master(self) -> str:
        """Return the address of the server without its parameters, which may be secret."""
        return without_parameters(self._server) if isinstance(self._server, str) else "sc://"

    @property
    def local_cores(self) -> int | None:
        """Return None: the server knows its master."""
        return None

    def begin(self, on_start: Callable[[float], None] | None = None) -> None:
        """Open the session now, while the caller goes on. `on_start` gets the seconds that it took, in
        another thread. Errors are raised by what needs the session first.
        """
        self._on_start = on_start
        self._begun()

    @property
    def parallelism(self) -> int:
        """Return the number of tasks that the server runs at once. It opens the session."""
        return self._current().cores

    @property
    def startup_seconds(self) -> float:
        """Return the seconds spent waiting for the session; 0 before."""
        return self._waited

    @property
    def starts_session(self) -> bool:
        """Return whether its work opens a session: not where the caller gave one."""
        return isinstance(self._server, str)

    def run(self, function: Callable[[A], R], tasks: Iterable[A]) -> Iterator[R | BaseException]:
        """Yield results in the order of `tasks`. A unit whose worker died on every try yields
        UnavailableError, and so does each unit without a result when the server ends.

        Units of more than `OPERATION_BYTES` together are several operations, one after another. Raises
        InvalidInputError for a unit that no operation takes. Leaving the iterator early interrupts what still
        runs.
        """
        payloads = [pickle.dumps((function, task)) for task in tasks]
        check_sizes(payloads)
        if not payloads or self._jobs.is_cancelled:
            return
        opened = self._current()
        with self._datagrams_of(opened.session).address_for(unit_listener()) as address:
            run = partial(self._run_job, address)
            yield from self._jobs.results(UnitJob(payloads, run, self._interrupt))

    def _datagrams_of(self, session: SparkSession) -> UnitDatagrams:
        """Return the receiver of this executor, at the address from which packets to the server leave."""
        with self._lock:
            if self._datagrams is None:
                self._datagrams = UnitDatagrams(address_towards(session.client.host) or "127.0.0.1")
            return self._datagrams

    def check(self) -> None:
        """Raise UnavailableError if the session that the caller gave is lost; one that was opened here is
        opened again at the next use.
        """
        if self._loss is not None and not self.starts_session:
            raise self._loss

    def cancel(self) -> None:
        """Interrupt running units; every later `run` yields nothing."""
        self._jobs.cancel()

    def stop(self) -> None:
        """Close the session if it was opened here; one that is still being opened is closed afterwards."""
        with self._lock:
            opening, self._opening = self._opening, None
        if opening is not None and opening.done() and opening.exception() is None:
            opening.result().close()

    def _current(self) -> ConnectSession:
        began = self._clock.monotonic()
        try:
            return self._begun().result()
        finally:
            self._waited += self._clock.monotonic() - began

    def _begun(self) -> Future[ConnectSession]:
        with self._lock:
            opening = self._opening
            if opening is None:
                self._opening = opening = Future()
                threading.Thread(target=self._open, args=(opening,), daemon=True).start()
            return opening

    def _open(self, opening: Future[ConnectSession]) -> None:
        began = self._clock.monotonic()
        try:
            server = self._server
            opened = open_session(server, self._conf) if isinstance(server, str) else use_session(server)
        except BaseException as err:  # noqa: BLE001 - the border of a thread: who waits raises it
            with self._lock:
                self._opening = None if self._opening is opening else self._opening
            opening.set_exception(err)
            return
        with self._lock:
            is_current = self._opening is opening
            opening.set_result(opened)
        if not is_current:
            opened.close()
        elif (on_start := self._on_start) is not None and isinstance(server, str):
            self._on_start = None  # a session that is opened again later is no start
            on_start(self._clock.monotonic() - began)

    def _run_job(
        self, address: DatagramAddress | None, tag: str, payloads: Sequence[bytes], inbox: Inbox
    ) -> None:
        """Run the units of one operation. Where the server has forgotten the session, it is tried once more
        in a new one.
        """
        for is_last in (False, True):
            opened, count = self._current(), 0
            try:
                for item in _results(opened.session, tag, payloads, address):
                    inbox.put(item)
                    count += 1
                return
            except Exception as err:
                if not is_connection_error(err):
                    raise
                self._forget(opened, err)
                if is_last or count or not opened.is_own or not has_no_session(err):
                    raise _loss_error(opened, err) from err

    def _forget(self, lost: ConnectSession, err: Exception) -> None:
        """Let the next use open another session."""
        self._loss = _loss_error(lost, err)
        with self._lock:
            opening = self._opening
            if opening is not None and opening.done() and opening.result() is lost:
                self._opening = None
        lost.drop()

    def _interrupt(self, tag: str, job: threading.Thread) -> None:
        """Interrupt the operation with that tag, also one that the server has yet to get: each tag is used
        once. It returns at once.
        """
        with self._lock:
            opening = self._opening
        if opening is not None and opening.done() and opening.exception() is None:
            arguments = (opening.result().session, tag, job)
            threading.Thread(target=_interrupt_until_end, args=arguments, daemon=True).start()


def _results(
    session: SparkSession, tag: str, payloads: Sequence[bytes], address: DatagramAddress | None
) -> Iterator[tuple[int, bytes]]:
    session.addTag(tag)  # tags are those of a thread, and the thread is that of one job
    for first, part in operations_of(payloads):
        for row in results_of(session, part, address).toLocalIterator():
            yield first + row.number, bytes(row.result)


def _interrupt_until_end(session: SparkSession, tag: str, job: threading.Thread) -> None:
    while job.is_alive():
        try:
            session.interruptTag(tag)
        except Exception:  # noqa: BLE001 - nobody answers: the job ends by that, too
            return
        job.join(_INTERRUPT_AGAIN_SECONDS)


def _loss_error(opened: ConnectSession, err: Exception) -> UnavailableError:
    reason = str(err).strip().split("\n", 1)[0]
    return UnavailableError(
        f"the Spark Connect server {opened.server} was lost in the middle of a job ({reason}); see whether "
        "it runs, then run again"
    )
