"""The job replays maintenance with other options on the history of a table, and says what they would have
cost and saved.

It reads metadata only and changes nothing. For the cost see `lakecore.maintain.replay.lifetimes` and
`lakecore.jobs.what_if.merges`.
"""

from __future__ import annotations

from dataclasses import replace

from lakecore.clock import Clock, SystemClock
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.executor import Executor
from lakecore.jobs.definitions.what_if import REPLAYED_CHORES
from lakecore.jobs.definitions.what_if import WhatIf as Job
from lakecore.jobs.runner.lake import Lake, target_of
from lakecore.jobs.what_if.compaction import Drops, compaction_options, compaction_variants
from lakecore.jobs.what_if.expiry import EXPIRY_OPTIONS, Effect, expiry_variants
from lakecore.jobs.what_if.partitions import PARTITION_OPTIONS, expires_partitions, partition_variants
from lakecore.jobs.what_if.policy_options import with_policy
from lakecore.jobs.what_if.report import WhatIfReport as Report
from lakecore.maintain.target import Target
from lakecore.table import Table

__all__ = ["Job", "Report", "run"]

_SHORTEST_MS = 60_000
_MOST_RUNS = 100_000


def run(job: Job, lake: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Replay the chores. Raises NotFoundError, InvalidInputError for options that no replayed chore has;
    UnsupportedError for a kind of table whose compactions cannot be replayed; CorruptDataError,
    UnavailableError when the history cannot be read.
    """
    clock = clock or SystemClock()
    started = clock.monotonic()
    job, notes = with_policy(job)
    table = lake.load_table(job.table)
    target = target_of(table, lake, clock)
    chores = _chores(job, table)
    report = Report(
        table=job.table,
        options=dict(job.options),
        every_ms=job.every_ms,
        until_ms=clock.now_ms(),
        notes=notes,
    )
    other = target_of(lake.load_table(job.table, job.options), lake, clock)
    _check_time(job, report.until_ms - _first_ms(target, report.until_ms))
    drops: Drops = {}
    effects: dict[str, Effect] = {}
    if "expire-partitions" in chores and expires_partitions(job, other):
        report, drops, effects = partition_variants(report, target, other, job.zone)
    if "expire-snapshots" in chores:
        report = expiry_variants(report, target, other, effects)
    if "compact" in chores:
        try:
            report = compaction_variants(report, lake, clock, job.strategy, drops)
        except UnsupportedError as err:
            if "compact" in job.chores or len(chores) == 1:
                raise
            report = replace(report, notes=(*report.notes, str(err)))
    return replace(report, seconds=round(clock.monotonic() - started, 3))


def _first_ms(target: Target, until_ms: int) -> int:
    earliest = target.snapshots.earliest()
    return until_ms if earliest is None else earliest.time_millis


def _check_time(job: Job, span_ms: int) -> None:
    """Refuse runs that are too many, or too often. Raises InvalidInputError."""
    if job.every_ms is None:
        return
    if job.every_ms < _SHORTEST_MS:
        raise InvalidInputError(f"every={job.every_ms} ms: use at least one minute")
    if span_ms // job.every_ms > _MOST_RUNS:
        count = span_ms // job.every_ms
        raise InvalidInputError(
            f"every={job.every_ms} ms: the history has {count:,} such times; use a longer time"
        )


def _chores(job: Job, table: Table) -> tuple[str, ...]:
    """Return the chores to replay: those of the job, or those that its options concern. Raises
    InvalidInputError for an option or a strategy that changes nothing.
    """
    strange = sorted(set(job.chores) - set(REPLAYED_CHORES))
    if strange:
        raise InvalidInputError(
            f"chore {strange[0]!r} cannot be replayed; the chores are {', '.join(REPLAYED_CHORES)}"
        )
    options = {
        "expire-snapshots": EXPIRY_OPTIONS,
        "expire-partitions": PARTITION_OPTIONS,
        "compact": compaction_options(table),
    }
    concerned = {name for name in REPLAYED_CHORES if options[name].intersection(job.options)}
    concerned |= {"compact"} if job.strategy is not None else set()
    chores = job.chores or tuple(name for name in REPLAYED_CHORES if name in concerned) or REPLAYED_CHORES
    replayed = {key for chore in chores for key in options[chore]}
    strange = sorted(set(job.options) - replayed)
    if strange:
        raise InvalidInputError(
            f"option {strange[0]!r} changes nothing in a replay of {', '.join(chores)}; "
            f"the options are {', '.join(sorted(replayed))}"
        )
    if job.strategy is not None and "compact" not in chores:
        raise InvalidInputError(f"strategy={job.strategy.value}: it needs the chore compact")
    return chores
