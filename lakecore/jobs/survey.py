"""The job that looks at the tables of a lake, says how healthy each one is, and stores the result.

Tables are looked at in threads. For the cost of a table see `lakecore.maintain.survey.measure`; listing
costs one listing of storage a database and one a table. Memory: some 3 kB a table.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakecore.catalog.privileges.grants import Privilege
from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, LakeError, UnavailableError, UnsupportedError, explain
from lakecore.executor import Executor
from lakecore.jobs.compact_database import ListedLake, tables_of
from lakecore.jobs.definitions.survey import SurveyTables as Job
from lakecore.jobs.runner.attempt import recorded
from lakecore.jobs.runner.forecast import COMPACT, Work, forecast_of
from lakecore.jobs.runner.lake import target_of
from lakecore.jobs.runner.rights import grants_of
from lakecore.maintain.attempts.record import Attempt
from lakecore.maintain.attempts.store import AttemptStore
from lakecore.maintain.forecast.history import HistoryStore
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.survey.activity import (
    DayActivity,
    LastAttempt,
    Lateness,
    commits_by_hour,
    lateness_after,
    newest_attempts,
    with_ended,
)
from lakecore.maintain.survey.days import DayPoint, DayPoints
from lakecore.maintain.survey.measure import figures_of, rules_of
from lakecore.maintain.survey.plan import DAY_MS, due_in_days, health, state_of, with_day
from lakecore.maintain.survey.record import Figures, State, TableRecord
from lakecore.maintain.survey.store import StoredSurvey, Survey, SurveyStore
from lakecore.maintain.table_key import table_key
from lakecore.maintain.target import Target, in_threads

__all__ = [
    "DayActivity",
    "DayPoint",
    "Job",
    "LastAttempt",
    "State",
    "Survey",
    "SurveyReader",
    "TableRecord",
    "counts",
    "latest_survey",
    "run",
    "survey_of_day",
]

logger = logging.getLogger(__name__)

_FIRST_LOOK_MS = 7 * DAY_MS
"""The first survey reads the ledger of so long."""


def run(job: Job, lake: ListedLake, executor: Executor | None = None, clock: Clock | None = None) -> Survey:
    """Look at the tables that match the patterns, and store the survey. A table that cannot be read has a
    record that says why. Records of tables that the patterns leave out stay as they were.

    Raises InvalidInputError for patterns, UnavailableError when storage does not answer, PrivilegeError for a
    user without INSERT on the catalog.
    """
    if job.max_concurrent_tables < 1:
        raise InvalidInputError(f"max-concurrent-tables={job.max_concurrent_tables}: use 1 or more")
    clock = clock or SystemClock()
    with recorded(lake, "", "survey", clock, enabled=not job.dry_run) as end:
        grants_of(lake).check(Privilege.INSERT)
        survey = _survey(job, lake, clock)
        end.figures = {"tables": len(survey.tables), "states": counts(survey)}
        return survey


def _survey(job: Job, lake: ListedLake, clock: Clock) -> Survey:
    started_ms, started = clock.now_ms(), clock.monotonic()
    store = SurveyStore(lake.file_io, lake.warehouse)
    last = store.latest()
    before = {record.table: record for record in last.tables} if last is not None else {}
    names = tables_of(job, lake)
    ended = _read_ended(lake, started_ms - _FIRST_LOOK_MS if last is None else last.started_ms, started_ms)
    by_table: dict[str, list[Attempt]] = {}
    for attempt in ended:
        by_table.setdefault(attempt.table, []).append(attempt)
    one = _Surveyor(job, lake, clock, before, _holds(lake, clock), by_table)
    records = in_threads(one.record, names, job.max_concurrent_tables)
    previous = {record.table: record for record in records}
    matched = set(tables_of(job, _ListedTables(tuple(before))))
    for name, record in before.items():
        if name not in previous:
            previous[name] = replace(record, state=State.VANISHED) if name in matched else record
    survey = Survey(
        started_ms=started_ms,
        seconds=round(clock.monotonic() - started, 3),
        tables=tuple(previous[name] for name in sorted(previous)),
        activity=with_ended(last.activity if last is not None else (), ended, started_ms),
    )
    if not job.dry_run:
        store.add(survey)
        _tidy_ledger(lake, clock)
    return survey


def _read_ended(lake: ListedLake, since_ms: int, now_ms: int) -> tuple[Attempt, ...]:
    """Return the attempts that ended since the last survey; none when the ledger cannot be read."""
    try:
        return AttemptStore(lake.file_io, lake.warehouse).ended_since(since_ms, now_ms)
    except LakeError as err:
        logger.warning(
            "the survey lacks the attempts since the last one, because the ledger cannot be read: %s",
            err,
        )
        return ()


def _tidy_ledger(lake: ListedLake, clock: Clock) -> None:
    """Put older days of the ledger into one file each; what fails is done by the next survey."""
    try:
        AttemptStore(lake.file_io, lake.warehouse).tidy(clock)
    except LakeError as err:
        logger.warning("old records of the ledger were not removed: %s", err)


def latest_survey(lake: ListedLake) -> Survey | None:
    """Return the newest survey of a lake; None without one. Tables that the user may neither read nor change
    are left out. Raises UnavailableError.
    """
    return SurveyReader().latest(lake)


class SurveyReader:
    """It reads the newest survey of one lake again and again, and decodes it when there is a newer one."""

    def __init__(self) -> None:
        self._stored: StoredSurvey | None = None

    def latest(self, lake: ListedLake) -> Survey | None:
        """Return the newest survey as `latest_survey` does. It costs one read of storage."""
        stored = self._stored = SurveyStore(lake.file_io, lake.warehouse).latest_after(self._stored)
        return _visible(lake, stored.survey) if stored is not None else None


def survey_of_day(lake: ListedLake, day: str) -> Survey | None:
    """Return the last survey of a day, `2026-11-22` (UTC), as `latest_survey` does; None without one."""
    return _visible(lake, SurveyStore(lake.file_io, lake.warehouse).of_day(day))


def _visible(lake: ListedLake, survey: Survey | None) -> Survey | None:
    if survey is None:
        return None
    grants = grants_of(lake)
    return replace(survey, tables=tuple(one for one in survey.tables if grants.may_see(one.table)))


def counts(survey: Survey) -> dict[str, int]:
    """Return the number of tables in each state, without the states of none."""
    states = Counter(record.state for record in survey.tables)
    return {state.value: states[state] for state in State if states[state]}


def _holds(lake: ListedLake, clock: Clock) -> Mapping[str, tuple[str, ...]]:
    """Return the holds of all tables, as sentences by table."""
    names: dict[str, list[str]] = {}
    for hold in HoldStore(lake.file_io, lake.warehouse, clock).all():
        names.setdefault(hold.table, []).append(str(hold))
    return {table: tuple(texts) for table, texts in names.items()}


@dataclass(frozen=True)
class _Surveyor:
    """It looks at one table at a time, in several threads."""

    job: Job
    lake: ListedLake
    clock: Clock
    before: Mapping[str, TableRecord]
    holds: Mapping[str, tuple[str, ...]]
    ended: Mapping[str, Sequence[Attempt]]
    """These are the attempts that ended since the last survey, by table."""

    def record(self, name: str) -> TableRecord:
        """Return the record of a table; an error of the table is in it."""
        last = self.before.get(name)
        ended = self.ended.get(table_key(name), ())
        return replace(
            self._look(name, last),
            attempts=newest_attempts(last.attempts if last is not None else (), ended),
            late=lateness_after(last.late if last is not None else Lateness(), ended),
        )

    def _look(self, name: str, last: TableRecord | None) -> TableRecord:
        now = self.clock.now_ms()
        fresh = TableRecord(table=name, state=State.OK, surveyed_ms=now, holds=self._holds(name))
        try:
            return self._measure(fresh, last)
        except UnavailableError as err:
            return _failed_record(last or fresh, fresh, State.UNREACHABLE, err)
        except UnsupportedError as err:
            return _failed_record(fresh, fresh, State.UNSUPPORTED, err)
        except LakeError as err:
            return _failed_record(last or fresh, fresh, State.BROKEN, err)
        except Exception as err:  # the border of one table: it must not stop the others
            logger.exception("%s", name)
            return _failed_record(fresh, fresh, State.BROKEN, err)

    def _measure(self, fresh: TableRecord, last: TableRecord | None) -> TableRecord:
        target = target_of(self.lake.load_table(fresh.table), self.lake, self.clock)
        last_figures = last.figures if last is not None and last.state is not State.BROKEN else None
        figures = figures_of(target, last_figures, history=self.job.history)
        same = (
            last is not None
            and last_figures is not None
            and figures.snapshot_key == last_figures.snapshot_key
        )
        score, deductions = health(figures, rules_of(target), fresh.surveyed_ms)
        point = DayPoint(fresh.surveyed_ms, score, figures.files, figures.bytes, figures.sorted_runs)
        days = with_day(last.days if last is not None else (), point)
        return replace(
            fresh,
            state=State.HELD if fresh.holds else state_of(score),
            score=score,
            figures=figures,
            figures_ms=last.figures_ms if same and last is not None else fresh.surveyed_ms,
            deductions=deductions,
            due_in_days=due_in_days(days),
            days=DayPoints(days),
            rhythm=self._rhythm(figures, fresh.surveyed_ms, last),
            expected_seconds=_forecast_seconds(target, figures),
        )

    def _rhythm(self, figures: Figures, now_ms: int, last: TableRecord | None) -> tuple[float, ...]:
        """Return the usual commits of each hour of the day. Without an earlier survey, those since the oldest
        snapshot count.
        """
        if last is not None and last.figures.snapshot is not None and figures.snapshot is not None:
            commits = max(0, figures.snapshot - last.figures.snapshot)
            return commits_by_hour(last.rhythm, commits, last.surveyed_ms, now_ms)
        since_ms = figures.oldest_ms if figures.oldest_ms is not None else now_ms
        return commits_by_hour((), figures.snapshots, since_ms, now_ms)

    def _holds(self, name: str) -> tuple[str, ...]:
        return self.holds.get(table_key(name), ())


def _forecast_seconds(target: Target, figures: Figures) -> float | None:
    """Return what a compaction of the buckets that are due will take, from earlier runs on any engine."""
    share = figures.due_share
    if not share:
        return None
    counts = (figures.files, figures.bytes, figures.rows)
    files, size, rows = (int(count * share) for count in counts)
    lines = HistoryStore(target.file_io, target.warehouse).lines(target.name, COMPACT)
    engine = lines[-1].engine if lines else "local"
    work = Work(files=files, bytes=size, rows=rows)
    return forecast_of(target, COMPACT, work, engine, around=False).seconds


def _failed_record(record: TableRecord, fresh: TableRecord, state: State, err: Exception) -> TableRecord:
    """Return a record with the figures of `record`, and why the table could not be read."""
    known_error = isinstance(err, LakeError)
    text = explain(err) if known_error else f"unexpected {type(err).__name__}: {err} (please report it)"
    score = record.score if state is State.UNREACHABLE else 0
    return replace(
        record,
        state=state,
        score=score,
        surveyed_ms=fresh.surveyed_ms,
        holds=fresh.holds,
        error=text,
        error_class=type(err).__name__,
        due_in_days=None,
    )


@dataclass(frozen=True)
class _ListedTables:
    """A list of tables by the names of an earlier survey, to which patterns apply as to a lake."""

    tables: tuple[str, ...]

    def list_databases(self) -> list[str]:
        return sorted({name.partition(".")[0] for name in self.tables})

    def list_tables(self, database: str) -> list[str]:
        return [name.partition(".")[2] for name in self.tables if name.partition(".")[0] == database]
