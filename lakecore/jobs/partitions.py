"""This module has the jobs on partitions: expire old ones, drop some, mark some as done.

Dropping removes rows from the table, not files from storage: the files are deleted when the older snapshots
expire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lakecore.clock import Clock
from lakecore.commit.duplicates import commits_of
from lakecore.commit.request import CommitRequest, Overwrite
from lakecore.errors import InvalidInputError
from lakecore.executor import Executor
from lakecore.jobs.definitions.rows import DropPartition, ExpirePartitions, MarkPartitionDone
from lakecore.jobs.runner.chore import Chore, ChoreKind, ChoreResult, Lake, Report, run_on_table
from lakecore.jobs.runner.counts import Change, Counts, counts_of_entries
from lakecore.jobs.versions.tags import zone_offset_ms
from lakecore.maintain.partitions.apply import aged_partitions, partition_label
from lakecore.maintain.partitions.in_step import remove_dropped
from lakecore.maintain.partitions.mark_done import check_actions, mark_done
from lakecore.maintain.partitions.plan import ExpireRule, ExpireStrategy, expired_partitions
from lakecore.maintain.retention_options import (
    PARTITION_BATCH,
    PARTITION_FORMATTER,
    PARTITION_MAX,
    PARTITION_PATTERN,
    PARTITION_STRATEGY,
    PARTITION_TIME,
)
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.row.partition_path import parse_partitions
from lakecore.scan.filters import ScanFilter, select_entries
from lakecore.table import Table

__all__ = ["DropPartition", "ExpirePartitions", "MarkPartitionDone", "expiry_rule", "run"]


_NAMES = {
    ExpirePartitions: "expire-partitions",
    DropPartition: "drop-partition",
    MarkPartitionDone: "mark-partition-done",
}


def run(
    job: ExpirePartitions | DropPartition | MarkPartitionDone,
    lake: Lake,
    executor: Executor | None = None,
    clock: Clock | None = None,
) -> Report:
    """Run a job on partitions. Raises InvalidInputError before anything is touched, CommitConflictError as a
    commit does.
    """
    return run_on_table(ChoreKind(_NAMES[type(job)]), job, lake, partial(_run, job), executor, clock)


def _run(job: ExpirePartitions | DropPartition | MarkPartitionDone, chore: Chore) -> ChoreResult | Report:
    if not chore.table.schema.partition_keys:
        raise InvalidInputError(f"table {job.table} is not partitioned")
    match job:
        case ExpirePartitions():
            return _expire(job, chore)
        case DropPartition():
            partitions = _parse(job, chore)
            dropped = _drop(job, chore, partitions)
            return _look(chore, partitions, dropped) if job.dry_run and partitions else dropped
        case MarkPartitionDone():
            return _mark(job, chore)


def _expire(job: ExpirePartitions, chore: Chore) -> ChoreResult | Report:
    target, table = chore.target, chore.table
    rule = expiry_rule(job, target.schema.options)
    now = target.clock.now_ms()
    offset = zone_offset_ms(job.zone, now)
    latest = table._stores.snapshots.latest()
    if latest is None:
        return replace(chore.report, nothing_to_do=True)
    live = table._scanner.live_entries(latest)
    old, timeless = expired_partitions(
        aged_partitions(target, live, rule.strategy, offset), rule, _wall(now, offset, rule)
    )
    result = _drop(job, chore, [one.values for one in old])
    if job.dry_run and old:
        old_partitions = ScanFilter(partitions=tuple(one.values for one in old))
        commits = -(-len(old) // _batch_size(chore))
        after = _without(chore, select_entries(live, old_partitions, target.schema.partition_type), commits)
        result = replace(result, before=counts_of_entries(target, live), after=after)
    if not timeless:
        return result
    labels = "; ".join(partition_label(target, one.values) for one in timeless[:3])
    note = f"{len(timeless)} partitions have no time in their values and never expire: {labels}"
    return replace(result, report=replace(result.report, notes=(*result.report.notes, note)))


def _wall(now_ms: int, offset_ms: int, rule: ExpireRule) -> int:
    """Return the present time on the clock that the rule compares with. Values are wall clock times; times of
    files were converted to UTC already.
    """
    return now_ms + offset_ms if rule.strategy is ExpireStrategy.VALUES_TIME else now_ms


def expiry_rule(job: ExpirePartitions, raw: Mapping[str, str]) -> ExpireRule:
    """Return the rule of a job for a table with these options. Raises InvalidInputError, InvalidOptionError
    for one that is missing or wrong.
    """
    time = PARTITION_TIME.read(raw) if job.expiration_ms is None else job.expiration_ms
    if time is None:
        raise InvalidInputError(
            f"{job.table}: it is unknown how long partitions are kept; set "
            "partition.expiration-time, or give "
            "expiration-time"
        )
    text = PARTITION_STRATEGY.read(raw) if job.expire_strategy is None else job.expire_strategy
    try:
        strategy = ExpireStrategy(text)
    except ValueError as err:
        choices = ", ".join(one.value for one in ExpireStrategy)
        raise InvalidInputError(f"expire-strategy {text!r}: use one of {choices}") from err
    return ExpireRule(
        expiration_ms=time,
        strategy=strategy,
        pattern=PARTITION_PATTERN.read(raw) if job.timestamp_pattern is None else job.timestamp_pattern,
        formatter=PARTITION_FORMATTER.read(raw)
        if job.timestamp_formatter is None
        else job.timestamp_formatter,
        max_expires=PARTITION_MAX.read(raw) if job.max_expires is None else job.max_expires,
    )


def _drop(
    job: ExpirePartitions | DropPartition, chore: Chore, partitions: Sequence[Mapping[str, Any]]
) -> ChoreResult:
    """Drop partitions in batches, with one commit each."""
    table, target = chore.table, chore.target
    names = tuple(
        ",".join(f"{name}={value}" for name, value in spec.items())
        if len(spec) < len(target.schema.partition_keys)
        else partition_label(target, spec)
        for spec in partitions
    )
    report = replace(chore.report, names=names, nothing_to_do=not names)
    latest = table._stores.snapshots.latest() if partitions else None
    work = None if latest is None else chore.manifest_work(latest)
    if not partitions or job.dry_run:
        return ChoreResult(report, work=work)
    user = job.commit_user or f"lakecore-{chore.report.job}-{target.clock.fresh_id()}"
    size = _batch_size(chore)
    last: int | None = None
    fresh = False
    first = _next_identifier(job, table) if isinstance(job, ExpirePartitions) else job.commit_identifier
    for number, low in enumerate(range(0, len(partitions), size)):
        chore.sweeper.gate.check(quarantine=False)
        result = table._committer().commit(
            (),
            CommitRequest(
                user=user,
                identifier=first + number,
                overwrite=Overwrite.static(*partitions[low : low + size]),
            ),
        )
        last = result.snapshot_ids[-1] if result.snapshot_ids else last
        fresh |= bool(result.snapshot_ids) and not result.duplicate
    notes = (*report.notes, *remove_dropped(target, partitions))
    report = replace(report, snapshot=last, nothing_to_do=not fresh, notes=notes)
    return ChoreResult(report, work=work)


def _batch_size(chore: Chore) -> int:
    """Return how many partitions one commit drops."""
    return max(PARTITION_BATCH.read(chore.target.schema.options), 1)


def _without(chore: Chore, entries: ManifestEntries, commits: int | None) -> Callable[[Counts], Counts]:
    """Return the change of counts when the files `entries` are dropped with `commits` commits."""
    keyed = bool(chore.target.schema.primary_keys)
    return Change.removing(entries, keyed=keyed, snapshots=commits).of


def _look(chore: Chore, partitions: Sequence[Mapping[str, Any]], result: ChoreResult) -> ChoreResult:
    """Return for a dry run what is dropped with the partitions. This reads the manifests that may have files
    of them.
    """
    latest = chore.table._stores.snapshots.latest()
    if latest is None:
        return replace(result, report=replace(result.report, nothing_to_do=True))
    entries = chore.table._scanner.live_entries(latest, ScanFilter(partitions=tuple(partitions)))
    after = _without(chore, entries, 1 if len(partitions) <= _batch_size(chore) else None)
    return replace(result, report=replace(result.report, nothing_to_do=not len(entries)), after=after)


def _next_identifier(job: ExpirePartitions, table: Table) -> int:
    """Return the identifier after those that an interrupted run of this name used: what it dropped is not
    among the rest.
    """
    used = commits_of(table._stores.snapshots, job.commit_user) if job.commit_user else ()
    return max((one.commit_identifier + 1 for one in used), default=job.commit_identifier)


def _parse(job: DropPartition | MarkPartitionDone, chore: Chore) -> tuple[dict[str, Any], ...]:
    partition_type = chore.target.schema.partition_type
    return parse_partitions(job.partitions, partition_type, chore.table.options.partition_default_name)


def _mark(job: MarkPartitionDone, chore: Chore) -> Report:
    partitions = _parse(job, chore)
    keys = chore.target.schema.partition_keys
    for spec in partitions:
        missing = [key for key in keys if key not in spec]
        if missing:
            raise InvalidInputError(
                f"partitions {job.partitions!r}: one of them has no value of {', '.join(missing)}"
            )
    names = tuple(partition_label(chore.target, spec) for spec in partitions)
    check_actions(chore.target)
    if not job.dry_run:
        mark_done(chore.target, partitions)
    return replace(chore.report, names=names)
