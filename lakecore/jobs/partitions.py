"""This module has the jobs on partitions: expire old ones, drop some, mark some as done.

Dropping removes rows from the table, not files from storage: the files are deleted when the older snapshots
expire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from lakecore.clock import Clock
from lakecore.commit.duplicates import commits_of
from lakecore.commit.request import CommitRequest, CommitResult, Examine, Overwrite
from lakecore.errors import InvalidInputError
from lakecore.executor import Executor
from lakecore.jobs.definitions.rows import DropPartition, ExpirePartitions, MarkPartitionDone
from lakecore.jobs.runner.chore import Chore, ChoreKind, ChoreResult, Lake, Report, run_on_table
from lakecore.jobs.runner.counts import Change, counts_of_shape
from lakecore.jobs.versions.tags import zone_offset_ms
from lakecore.maintain.partitions.apply import partition_label
from lakecore.maintain.partitions.in_step import remove_dropped
from lakecore.maintain.partitions.late_writes import Expiry, LateWritesError
from lakecore.maintain.partitions.live_files import LiveFiles
from lakecore.maintain.partitions.mark_done import check_actions, mark_done
from lakecore.maintain.partitions.plan import ExpireRule, ExpireStrategy
from lakecore.maintain.retention_options import (
    PARTITION_BATCH,
    PARTITION_FORMATTER,
    PARTITION_MAX,
    PARTITION_PATTERN,
    PARTITION_STRATEGY,
    PARTITION_TIME,
)
from lakecore.metadata.manifest.bucket_counts import GROUP_FILES, in_groups
from lakecore.row.partition_path import parse_partitions
from lakecore.scan.filters import ScanFilter
from lakecore.table import Table

__all__ = ["DropPartition", "ExpirePartitions", "MarkPartitionDone", "expiry_rule", "run"]


_Batch: TypeAlias = Sequence[Mapping[str, Any]]

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
    kind = ChoreKind(_NAMES[type(job)], by_age=isinstance(job, ExpirePartitions))
    return run_on_table(kind, job, lake, partial(_run, job), executor, clock)


def _run(job: ExpirePartitions | DropPartition | MarkPartitionDone, chore: Chore) -> ChoreResult | Report:
    if not chore.table.schema.partition_keys:
        raise InvalidInputError(f"table {job.table} is not partitioned")
    match job:
        case ExpirePartitions():
            return _expire(job, chore)
        case DropPartition():
            partitions = _parse(job, chore)
            dropped = _drop(job, chore, _batches(chore, partitions))
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
    live = LiveFiles(table._scanner, latest)
    expiry = Expiry(target, table._scanner, rule, _wall(now, offset, rule), offset)
    old, timeless = expiry.of(live)
    batches = [
        batch
        for group in in_groups(((one.values, one.files) for one in old), GROUP_FILES)
        for batch in _batches(chore, group)
    ]
    if job.dry_run and old:
        dropped = live.shape(tuple(one.values for one in old))
        after = Change.removing(dropped, snapshots=len(batches)).of
        result = replace(
            _drop(job, chore, batches), before=counts_of_shape(target, live.shape()), after=after
        )
    else:
        del live  # it may be large
        result = _drop(job, chore, batches, partial(expiry.examine, latest))
    if not timeless:
        return result
    labels = "; ".join(partition_label(target, one.values) for one in timeless[:3])
    by_values = rule.strategy is ExpireStrategy.VALUES_TIME
    reason = "have no time in their values" if by_values else "have files whose time of creation is unknown"
    note = f"{len(timeless)} partitions {reason} and never expire: {labels}"
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
    job: ExpirePartitions | DropPartition,
    chore: Chore,
    batches: Sequence[_Batch],
    examine_for: Callable[[_Batch], Examine] | None = None,
) -> ChoreResult:
    """Drop batches of partitions, with one commit each. `examine_for` returns the check of a batch before it
    is published; partitions that the check refuses are kept.
    """
    table, target = chore.table, chore.target
    latest = table._stores.snapshots.latest() if batches else None
    work = None if latest is None else chore.manifest_work(latest)
    if not batches or job.dry_run:
        names = _names(chore, batches)
        return ChoreResult(replace(chore.report, names=names, nothing_to_do=not names), work=work)
    user = job.commit_user or f"lakecore-{chore.report.job}-{target.clock.fresh_id()}"
    last: int | None = None
    fresh = False
    notes: tuple[str, ...] = ()
    first = _next_identifier(job, table) if isinstance(job, ExpirePartitions) else job.commit_identifier
    dropped: list[_Batch] = []
    for number, batch in enumerate(batches):
        name = CommitRequest(user=user, identifier=first + number)
        rest, result, late = _drop_batch(chore, batch, name, examine_for)
        notes += late
        if result is not None:
            last = result.snapshot_ids[-1] if result.snapshot_ids else last
            fresh |= bool(result.snapshot_ids) and not result.duplicate
            dropped.append(rest)
    notes += remove_dropped(target, [spec for batch in dropped for spec in batch])
    report = replace(chore.report, names=_names(chore, dropped), snapshot=last, nothing_to_do=not fresh)
    return ChoreResult(replace(report, notes=(*report.notes, *notes)), work=work)


def _drop_batch(
    chore: Chore, batch: _Batch, name: CommitRequest, examine_for: Callable[[_Batch], Examine] | None
) -> tuple[_Batch, CommitResult | None, tuple[str, ...]]:
    """Drop the partitions of a batch that the check does not refuse, in one commit. It returns them, the
    result, which is None when none is left, and notes on the others.
    """
    notes: tuple[str, ...] = ()
    while batch:
        chore.sweeper.gate.check(quarantine=False)
        examine = None if examine_for is None else examine_for(batch)
        request = replace(name, overwrite=Overwrite.static(*batch), examine=examine)
        try:
            return batch, chore.table._committer().commit((), request), notes
        except LateWritesError as err:
            batch = [spec for spec in batch if spec not in err.partitions]
            notes += (f"{err}; they are kept",)
    return batch, None, notes


def _names(chore: Chore, batches: Sequence[_Batch]) -> tuple[str, ...]:
    target = chore.target
    return tuple(
        ",".join(f"{name}={value}" for name, value in spec.items())
        if len(spec) < len(target.schema.partition_keys)
        else partition_label(target, spec)
        for batch in batches
        for spec in batch
    )


def _batches(chore: Chore, partitions: _Batch) -> list[_Batch]:
    """Return the partitions that one commit drops each."""
    size = max(PARTITION_BATCH.read(chore.target.schema.options), 1)
    return [partitions[low : low + size] for low in range(0, len(partitions), size)]


def _look(chore: Chore, partitions: Sequence[Mapping[str, Any]], result: ChoreResult) -> ChoreResult:
    """Return for a dry run what is dropped with the partitions. This reads the manifests that may have files
    of them.
    """
    latest = chore.table._stores.snapshots.latest()
    if latest is None:
        return replace(result, report=replace(result.report, nothing_to_do=True))
    files = LiveFiles(chore.table._scanner, latest, ScanFilter(partitions=tuple(partitions))).shape()
    after = Change.removing(files, snapshots=1 if len(_batches(chore, partitions)) <= 1 else None).of
    return replace(result, report=replace(result.report, nothing_to_do=not files.files), after=after)


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
