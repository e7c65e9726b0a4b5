"""This module reads a lake for the pages: surveys, one table, and the runs of a table. Storage is asked in
threads, and a page waits for it `PATIENCE_S` at most.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lakecore_airflow.hooks import LakeHook
from lakecore_airflow.ui.words import DAY_MS

if TYPE_CHECKING:
    from lakecore.catalog.catalog import Catalog
    from lakecore.jobs.attempts import Attempts
    from lakecore.jobs.cost.prices import PriceList
    from lakecore.jobs.level_history import LevelPoint
    from lakecore.jobs.survey import Survey, SurveyReader

__all__ = ["MOST_FILES", "Answer", "LakeData", "Quarantine", "SurveyState", "TableDetails"]

logger = logging.getLogger(__name__)

PATIENCE_S = 3.0
_LATE = f"storage did not answer within {PATIENCE_S:.0f} s"
_FRESH_MS = 15_000
"""For so long an answer counts as fresh."""
_SHOWN_MS = 10 * 60_000
"""An answer that is not older is shown at once, while storage is asked again for the next page."""
MOST_FILES = 200_000
"""A page does not read the files of a table that has more."""
_LISTED = 50
_READERS = ("lakecore.catalog.filesystem", "lakecore.jobs.survey")

_MOST_ANSWERS = 40

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SurveyState:
    """A survey as a page has it; `problem` says why it may be old, or missing."""

    survey: Survey | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """These are the runs whose files are in the quarantine, the newest first, and the holds by table."""

    runs: tuple[Mapping[str, Any], ...]
    holds: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableDetails:
    """This is what a page reads of one table beside its survey. A part that could not be read is empty, and
    `problems` say why.
    """

    read_ms: int
    cells: Mapping[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    """It has the number of files and their bytes by level and bucket."""
    levels: tuple[LevelPoint, ...] = ()
    """It has the files of each level at the last snapshots, the oldest first."""
    snapshots: tuple[Mapping[str, Any], ...] = ()
    """The newest snapshots are first."""
    tags: tuple[Mapping[str, Any], ...] = ()
    consumers: tuple[Mapping[str, Any], ...] = ()
    holds: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    """These sentences say what blocks the expiry of the table."""
    runs: tuple[Mapping[str, Any], ...] = ()
    """The newest runs of maintenance are first."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """This is what storage said, when it did, and why it says nothing now (`problem`)."""

    value: T | None
    read_ms: int = 0
    problem: str = ""


class LakeData:
    """It reads what the pages show. One object serves all requests of an API server."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="lakecore-ui")
        self._answers: dict[str, Any] = {}
        self._readers: dict[str, SurveyReader] = {}
        self._requests: dict[str, Future[Any]] = {}
        self._problems: dict[str, str] = {}
        self._began_ms: dict[str, int] = {}
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """Return the time in milliseconds since the epoch."""
        from lakecore.clock import SystemClock

        return SystemClock().now_ms()

    def survey(self, conn_id: str) -> SurveyState:
        """Return the newest survey of a lake. A survey that is known already is returned when storage does
        not answer in time.
        """
        answer = self.ask(f"survey {conn_id}", lambda: self._read_survey(conn_id), at_once=True)
        return SurveyState(answer.value, answer.problem)

    def attempts(self, conn_id: str, days: int) -> Answer[Attempts]:
        """Return the attempts of the last days, the oldest first."""

        def read() -> Attempts:
            from lakecore.jobs.attempts import AttemptFilter, attempts_of

            since_ms = self.now_ms() - days * DAY_MS
            return attempts_of(self._catalog(conn_id), AttemptFilter(since_ms=since_ms))

        return self.ask(f"attempts {conn_id} {days}", read, at_once=True)

    def quarantine(self, conn_id: str) -> Answer[Quarantine]:
        """Return the runs whose files are in the quarantine, the newest first, and the holds."""

        def read() -> Quarantine:
            from lakecore.jobs.holds import holds_of
            from lakecore.jobs.quarantine import runs_of

            catalog = self._catalog(conn_id)
            runs = [run.to_json() for run in reversed(runs_of(catalog)) if run.state.value == "quarantined"]
            return Quarantine(tuple(runs), {hold.table: str(hold) for hold in holds_of(catalog)})

        return self.ask(f"quarantine {conn_id}", read)

    def prices(self, conn_id: str) -> PriceList:
        """Return the prices of a connection; what is no price counts as unknown."""
        from lakecore.errors import LakeError
        from lakecore.jobs.cost.prices import PriceList

        try:
            return LakeHook(conn_id).price_list()
        except LakeError as err:
            logger.warning("connection %s: %s", conn_id, err)
            return PriceList()

    def ask(self, key: str, work: Callable[[], T], *, at_once: bool = False) -> Answer[T]:
        """Return what `work` returns, or what it returned before when it fails or takes too long. An answer
        counts as fresh for some seconds. `at_once`: an older answer is returned without any wait, and `work`
        runs in the background for the next page.
        """
        cached: Answer[T] | None = self._answers.get(key)
        age_ms = self.now_ms() - cached.read_ms if cached is not None else 0
        if cached is not None and age_ms < _FRESH_MS:
            return cached
        try:
            if cached is not None and at_once and age_ms < _SHOWN_MS:
                self._in_background(key, lambda: self._keep(key, work()))
                return replace(cached, problem=self._problem_of(key))
            return self._in_time(key, lambda: self._keep(key, work()))
        except Exception as err:  # noqa: BLE001 - the page says what it was, and shows what is known
            logger.warning("%s could not be read: %s", key, err)
            last = cached or Answer(None)
            return Answer(last.value, last.read_ms, _sentence(err))

    def _keep(self, key: str, value: T) -> Answer[T]:
        """Remember an answer, also one that came too late for its page; the oldest go."""
        answer = Answer(value, self.now_ms())
        with self._lock:
            self._problems.pop(key, None)
            self._answers.pop(key, None)
            self._answers[key] = answer
            while len(self._answers) > _MOST_ANSWERS:
                self._answers.pop(next(iter(self._answers)))
        return answer

    def details(self, conn_id: str, table: str, files: int) -> TableDetails | str:
        """Return what storage has of one table, or why it could not be read. `files`: how many the survey
        counted.
        """
        try:
            return self._in_time(
                f"table {conn_id} {table}", lambda: self._read_details(conn_id, table, files)
            )
        except Exception as err:  # noqa: BLE001 - as above
            return _sentence(err)

    def _in_time(self, key: str, work: Callable[[], T]) -> T:
        """Return what `work` returns. Raises TimeoutError, and what `work` raises.

        Requests for the same key share one call.
        """
        for module in _READERS:  # the first request pays for imports; storage gets its whole time
            importlib.import_module(module)
        future = self._start(key, work)
        try:
            result: T = future.result(PATIENCE_S)
        except LateError:
            raise TimeoutError(_LATE) from None
        finally:
            with self._lock:
                if future.done():
                    self._requests.pop(key, None)
        return result

    def _start(self, key: str, work: Callable[[], T]) -> Future[T]:
        """Return the call that works for the key, a new one if there is none."""
        with self._lock:
            future = self._requests.get(key)
            if future is None or future.done():
                self._began_ms[key] = self.now_ms()
                future = self._requests[key] = self._threads.submit(work)
        return future

    def _problem_of(self, key: str) -> str:
        """Return why the answer for the key is not newer: what the last call said, or that it takes long."""
        future = self._requests.get(key)
        late = future is not None and self.now_ms() - self._began_ms[key] > PATIENCE_S * 1000
        if late and future is not None and not future.done():
            return _LATE
        return self._problems.get(key, "")

    def _in_background(self, key: str, work: Callable[[], T]) -> None:
        """Let `work` run for the next page. Its error is what that page says."""

        def noted() -> T:
            try:
                return work()
            except Exception as err:
                logger.warning("%s could not be read: %s", key, err)
                self._problems[key] = _sentence(err)
                raise

        self._start(key, noted)

    def _catalog(self, conn_id: str) -> Catalog:
        return LakeHook(conn_id).catalog()

    def _read_survey(self, conn_id: str) -> Survey | None:
        from lakecore.jobs.survey import SurveyReader

        return self._readers.setdefault(conn_id, SurveyReader()).latest(self._catalog(conn_id))

    def _read_details(self, conn_id: str, name: str, files: int) -> TableDetails:
        catalog = self._catalog(conn_id)
        problems: list[str] = []

        def part(what: str, read: Callable[[], T], empty: T) -> T:
            from lakecore.errors import LakeError

            try:
                return read()
            except LakeError as err:
                problems.append(f"{what}: {err}")
                return empty

        def rows(system: str) -> tuple[Mapping[str, Any], ...]:
            details = catalog.load_table(f"{name}${system}").scan().to_arrow()
            return tuple(reversed(details.slice(max(0, len(details) - _LISTED)).to_pylist()))

        catalog.load_table(name)
        few = files <= MOST_FILES
        if not few:
            problems.append(f"levels: the table has {files:,} files; they are not read for a page")
        return TableDetails(
            read_ms=self.now_ms(),
            cells=part("levels", lambda: _cells(catalog, name), {}) if few else {},
            levels=part("levels of snapshots", lambda: _levels(catalog, name), ()) if few else (),
            snapshots=part("snapshots", lambda: rows("snapshots"), ()),
            tags=part("tags", lambda: rows("tags"), ()),
            consumers=part("consumers", lambda: rows("consumers"), ()),
            holds=part("holds", lambda: _holds(catalog, name), ()),
            reasons=part("what blocks expiry", lambda: _reasons(catalog, name), ()),
            runs=part("runs", lambda: _runs(catalog, name), ()),
            problems=tuple(problems),
        )


def _cells(catalog: Catalog, name: str) -> dict[tuple[int, str], tuple[int, int]]:
    columns = ("level", "partition", "bucket", "file_size_in_bytes")
    files = catalog.load_table(f"{name}$files").scan(columns=columns).to_arrow()
    cells: dict[tuple[int, str], tuple[int, int]] = {}
    for level, partition, bucket, size in zip(*(files[name].to_pylist() for name in columns), strict=True):
        key = (level, f"{partition or ''} {bucket}".strip())
        count, total = cells.get(key, (0, 0))
        cells[key] = (count + 1, total + size)
    return cells


def _levels(catalog: Catalog, name: str) -> tuple[LevelPoint, ...]:
    from lakecore.jobs.level_history import level_history

    return level_history(catalog, name)


def _reasons(catalog: Catalog, name: str) -> tuple[str, ...]:
    from lakecore.jobs.definitions.repair import Why
    from lakecore.jobs.runner.dispatch import run_chore

    report = run_chore(Why(table=name), catalog)
    return tuple(filter(None, (report.blocker, *report.names, *report.notes)))


def _holds(catalog: Catalog, name: str) -> tuple[str, ...]:
    from lakecore.jobs.holds import holds_of

    return tuple(str(hold) for hold in holds_of(catalog, table=name))


def _runs(catalog: Catalog, name: str) -> tuple[Mapping[str, Any], ...]:
    from lakecore.jobs.quarantine import runs_of

    return tuple(run.to_json() for run in reversed(runs_of(catalog, name)[-_LISTED:]))


def _sentence(err: Exception) -> str:
    from lakecore.errors import mask_secrets, printable

    return printable(mask_secrets(str(err) or type(err).__name__), 500)
