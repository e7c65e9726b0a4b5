"""This module has the job `create-batch-tags`: it tags each complete day or hour exactly once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lakecore.clock import Clock
from lakecore.errors import (
    ExpiredError,
    InvalidInputError,
    InvalidOptionError,
    NotFoundError,
    UnavailableError,
)
from lakecore.executor import Executor
from lakecore.jobs.definitions.tags import CreateBatchTags as Job
from lakecore.jobs.definitions.tags import PeriodClock
from lakecore.jobs.runner.chore import (
    DAY_MS,
    Chore,
    ChoreKind,
    Lake,
    Report,
    parameters,
    run_on_table,
)
from lakecore.jobs.runner.moment import parse_moment
from lakecore.maintain.auto_tags.options import PROCESS_ZONE, WATERMARK_ZONE, num_retained
from lakecore.maintain.batch_tags.apply import History, check_series, make, read_history, replace_others
from lakecore.maintain.batch_tags.plan import (
    Period,
    PeriodAction,
    Series,
    State,
    periods_between,
    plan,
    retire,
)
from lakecore.maintain.deletion.sweep import SweepResult
from lakecore.maintain.retention_options import TAG_DEFAULT_TIME
from lakecore.maintain.tags import apply
from lakecore.maintain.wall_clock import WallClock
from lakecore.scan.auto_tags import AutoTagNames
from lakecore.types.text import timestamp_text

__all__ = ["Job", "PeriodClock", "Report", "run"]

_JOB = "create-batch-tags"
_MOST_NAMES = 31
_LOOKS = 5
_RANGE = 10_000
"""Periods that are looked at where no range is given."""
_DAY = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)")
_PERIOD_KEYS = ("tag.creation-period", "tag.creation-period-duration")


def run(job: Job, lake: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Create the tags. `names` of the report are the tags that were created or moved.

    Raises UnavailableError while the period of `date` is not over, ExpiredError when its snapshot has
    expired; the other tags are created nevertheless. On a table that is on hold no tag is replaced or
    deleted: `held` says so.
    """
    kind = ChoreKind(_JOB, quarantine=True)
    return run_on_table(kind, job, lake, lambda chore: _Work(job, chore).run(), executor, clock)


class _Work:
    """A job that is run from the request to the report."""

    def __init__(self, job: Job, chore: Chore) -> None:
        self._job = job
        self._chore = chore
        try:
            self._by_watermark = PeriodClock(job.by) is PeriodClock.WATERMARK
        except ValueError as err:
            raise InvalidInputError(f"by {job.by!r}: write commit-time or watermark") from err
        options = chore.target.schema.options
        zone = WATERMARK_ZONE.read(options) if self._by_watermark else PROCESS_ZONE.read(options)
        self._zone = job.zone or zone or "UTC"
        self._wall = WallClock.of(self._zone)
        self._series = Series(AutoTagNames.from_options(_period_options(job, options)), job.name)
        check_series(chore.target, self._series)
        self._most = _most(job, options)

    def run(self) -> Report:
        job = self._job
        history, duties, period = self._look()
        asking = [duty for duty in duties if job.backfill or (period and duty.period.name == period.name)]
        staying, surplus = retire(asking, self._series, history.tags, self._most)
        replaces = job.replace and not self._chore.holds
        others = [duty for duty in staying if duty.state is State.OTHER]
        hold = self._chore.hold_text() if surplus or (others and job.replace) else ""
        surplus = () if hold else surplus
        work = [duty for duty in staying if duty.state is not State.OTHER or replaces]
        changed, report = self._apply(work, history, surplus)
        asked_for = {duty.period for duty in asking}
        unasked = [duty for duty in duties if duty.period not in asked_for]
        notes = (*_notes(staying, unasked, replaces), *_retire(surplus, dry_run=job.dry_run))
        self._complain(staying, period, history)
        snapshots = [duty.snapshot for duty in work if duty.period.name in changed]
        return replace(
            report,
            names=changed,
            snapshot=snapshots[-1] if snapshots else None,
            notes=(*notes, *report.notes),
            nothing_to_do=not changed and not surplus,
            on_hold=hold,
        )

    def _look(self) -> tuple[History, tuple[PeriodAction, ...], Period | None]:
        """Return the history, the actions and the requested period. It reads again when snapshots expire
        meanwhile.
        """
        problem = ""
        for _ in range(_LOOKS):
            try:
                history = read_history(self._chore.target, by_watermark=self._by_watermark)
                duties, period = self._periods(history)
                return (
                    history,
                    plan(duties, history.points, history.tags, over_ms=self._over_ms(history)),
                    period,
                )
            except NotFoundError as err:
                problem = str(err)
        name = self._chore.target.name
        raise UnavailableError(f"{name}: its snapshots keep expiring ({problem}): run again later")

    def _periods(self, history: History) -> tuple[list[Period], Period | None]:
        """Return the periods to examine, and the one that `date` asks for (None where only a range is
        given).
        """
        job = self._job
        only_range = bool(job.start or job.end) and not job.date
        date = None if only_range else self._local(job.date, "date") if job.date else self._last_over(history)
        times = [time for name in history.tags if (time := self._series.time_of(name)) is not None]
        end = self._local(job.end, "to", last=True) if job.end else date
        if end is None and only_range:
            end = self._last_over(history)
        if end is None:
            raise UnavailableError(
                f"{self._chore.target.name} has no watermark yet: run again when it has one"
            )
        oldest = max(min([*times, end]), end - _RANGE * self._series.names.length_ms)
        start = self._local(job.start, "from") if job.start else oldest
        periods = {self._period(begin).name: begin for begin in periods_between(self._series, start, end)}
        if date is None:
            return [self._period(begin) for begin in periods.values()], None
        period = self._period(self._series.names.floor(date))
        return [self._period(b) for b in sorted({*periods.values(), period.begins_ms})], period

    def _period(self, begin: int) -> Period:
        end = self._wall.utc_ms(begin + self._series.names.length_ms) + self._job.delay_ms
        return Period(self._series.name_of(begin), begin, end)

    def _over_ms(self, history: History) -> int | None:
        return history.newest_ms if self._by_watermark else self._chore.target.clock.now_ms()

    def _last_over(self, history: History) -> int | None:
        """Return when the last period began that was complete at `as_of`; None without any watermark."""
        over = self._over_ms(history)
        if over is None:
            return None
        if self._job.as_of:
            over = min(over, parse_moment(self._job.as_of, "as-of", self._zone))
        local = self._wall.local_ms(over - self._job.delay_ms)
        length = self._series.names.length_ms
        begin = self._series.names.floor(local or 0)
        while self._period(begin).ends_ms > over:
            begin -= length
        return begin

    def _local(self, text: str, argument: str, *, last: bool = False) -> int:
        """Parse a time on the wall clock: a day (`last`: its end), a date and time, or the name of a
        period.
        """
        day = _DAY.fullmatch(text.strip())
        nanos = self._series.names.time_of(text.strip())
        if nanos is not None and day is None:
            return nanos // 1_000_000
        plain = "-".join(day.groups()) if day else text
        local = self._wall.local_ms(parse_moment(plain, argument, self._zone))
        if local is None:
            raise InvalidInputError(f"{argument} {text!r}: this is not a date and time of the calendar")
        return local + max(0, DAY_MS - self._series.names.length_ms) * (last and day is not None)

    def _apply(
        self, duties: Sequence[PeriodAction], history: History, surplus: tuple[str, ...]
    ) -> tuple[tuple[str, ...], Report]:
        """Create, then replace, then delete: an interruption at any point leaves no tag missing."""
        job, chore = self._job, self._chore
        removal = apply.deletion(chore.target, chore.sweeper, surplus) if surplus else None
        if job.dry_run:
            names = tuple(d.period.name for d in duties if d.state in (State.NEW, State.OTHER))
            return names, chore.report if removal is None else chore.report.planned(removal[0])
        lifetime = self._lifetime()
        new_names = make(chore.target, duties, history, lifetime)
        swept = replace_others(
            chore.sweeper, duties, lifetime, quarantine=chore.quarantine, by_watermark=self._by_watermark
        )
        changed = (*new_names, *swept)
        if surplus:
            removal = apply.deletion(chore.target, chore.sweeper, surplus)
            swept["deleted"] = apply.delete(
                _JOB, removal, chore.sweeper, quarantine=chore.quarantine, parameters=parameters(job)
            )
        return changed, _swept(chore.report, swept)

    def _lifetime(self) -> apply.Lifetime | None:
        retained = self._job.time_retained_ms
        if retained is None:
            retained = TAG_DEFAULT_TIME.read(self._chore.target.schema.options)
        return apply.Lifetime.starting(self._chore.target.clock.now_ms(), WallClock.of("UTC"), retained)

    def _complain(self, duties: Sequence[PeriodAction], period: Period | None, history: History) -> None:
        """Raise for the period that `date` asks for and that has no tag now."""
        duty = next((duty for duty in duties if duty.period == period), None)
        if duty is None or self._job.dry_run or duty.current is not None:
            return
        name = f"{self._chore.target.name}: tag {duty.period.name!r}"
        if duty.state is State.OPEN:
            raise UnavailableError(
                f"{name}: its period ends at {_instant(duty.period.ends_ms)} ({self._job.by}, zone "
                f"{self._zone}) and is not over: run again then"
            )
        if duty.state is State.LOST:
            oldest = history.oldest
            rest = (
                "no snapshot is left" if oldest is None else f"the oldest snapshot left is {oldest.snapshot}"
            )
            raise ExpiredError(
                f"{name} can no longer be created: {duty.why}, {rest}; keep snapshots longer than a period "
                "(snapshot.time-retained), or run this in time"
            )


def _instant(millis: int) -> str:
    return timestamp_text(millis * 1_000_000, 0, "T") + "Z"


def _period_options(job: Job, options: Mapping[str, str]) -> dict[str, str]:
    """Return the table's options overridden by those of the job. Raises InvalidInputError naming the
    job's.
    """
    own_options = {key: value for key, value in options.items() if not job.period or key not in _PERIOD_KEYS}
    if job.formatter:
        own_options["tag.period-formatter"] = job.formatter
    if not job.period:
        return own_options
    for key in _PERIOD_KEYS:
        try:
            AutoTagNames.from_options({**own_options, key: job.period})
        except InvalidOptionError:
            continue
        return {**own_options, key: job.period}
    raise InvalidInputError(f"period {job.period!r}: write daily, hourly, two-hours or a time such as 15 min")


def _most(job: Job, options: Mapping[str, str]) -> int | None:
    if job.num_retained_max is None:
        return num_retained(options)
    if job.num_retained_max < 1:
        raise InvalidInputError(
            f"num-retained-max {job.num_retained_max}: the newest tag is always kept; specify 1 or more"
        )
    return job.num_retained_max


def _notes(duties: Sequence[PeriodAction], others: Sequence[PeriodAction], replaces: bool) -> Iterator[str]:
    """Return the notes on the periods, one line for each state. `others` are the periods that were only
    examined.
    """
    there = [duty for duty in duties if duty.state is State.THERE]
    if there:
        origin = f", of snapshot {there[0].current}" if len(there) == 1 else ""
        yield f"tags that already exist: {_names(there)}{origin}"
    for duty in [d for d in duties if d.state is State.OTHER and not replaces]:
        yield (
            f"{duty.period.name} is a tag of snapshot {duty.current}, but the rule gives snapshot "
            f"{duty.snapshot}: "
            "it was not changed; --replace changes it"
        )
    missing = [duty for duty in others if duty.state is State.NEW]
    if missing:
        yield f"tags that are missing: {_names(missing)}; --backfill creates them"
    lost = [duty for duty in (*others, *duties) if duty.state is State.LOST]
    for state, text in (
        (State.LOST, "can no longer be created"),
        (State.EMPTY, "not created, because there was nothing to tag"),
        (State.OPEN, "not created"),
        (State.RETIRED, "not created"),
    ):
        names = lost if state is State.LOST else [duty for duty in duties if duty.state is state]
        for why in dict.fromkeys(duty.why for duty in names):
            yield f"{text}: {_names([duty for duty in names if duty.why == why])} ({why})"


def _swept(report: Report, swept: Mapping[str, SweepResult]) -> Report:
    """Return the report with the figures of what was removed; the notes list several runs separately."""
    runs = [f"{name}: run {one.run}" for name, one in swept.items() if one.files or one.roots]
    return replace(
        report,
        quarantined=report.quarantined and bool(runs),
        run=next((one.run for one in reversed([*swept.values()]) if one.files or one.roots), None),
        files=sum(one.roots + one.files for one in swept.values()),
        bytes=sum(one.size for one in swept.values()),
        spared=sum(len(one.still_referenced) for one in swept.values()),
        notes=tuple(runs) if len(runs) > 1 else (),
    )


def _retire(surplus: Sequence[str], *, dry_run: bool) -> Iterator[str]:
    if surplus:
        yield f"tags that {'would be removed' if dry_run else 'were removed'}: {', '.join(surplus)}"


def _names(duties: Sequence[PeriodAction]) -> str:
    names = [duty.period.name for duty in duties]
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
