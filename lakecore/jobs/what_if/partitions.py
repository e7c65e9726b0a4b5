"""This module replays the expiry of partitions: without any, with the options of the table, and with those of
the question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from lakecore.errors import InvalidInputError
from lakecore.jobs.definitions.rows import ExpirePartitions
from lakecore.jobs.definitions.what_if import WhatIf as Job
from lakecore.jobs.partitions import expiry_rule
from lakecore.jobs.versions.tags import zone_offset_ms
from lakecore.jobs.what_if.compaction import Drops
from lakecore.jobs.what_if.expiry import Effect
from lakecore.jobs.what_if.merges import PartitionDrop
from lakecore.jobs.what_if.report import PartitionFigures, PartitionRun, WhatIfReport
from lakecore.maintain.partitions.apply import partition_label
from lakecore.maintain.partitions.plan import ExpireRule
from lakecore.maintain.replay.partition_changes import read_partition_history
from lakecore.maintain.replay.partition_effect import with_expired_partitions
from lakecore.maintain.replay.partition_history import PartitionReplay, PartitionRules, PartitionStep
from lakecore.maintain.replay.partition_plan import replay_partitions
from lakecore.maintain.replay.plan import run_times
from lakecore.maintain.retention_options import (
    PARTITION_FORMATTER,
    PARTITION_MAX,
    PARTITION_PATTERN,
    PARTITION_STRATEGY,
    PARTITION_TIME,
)
from lakecore.maintain.target import Target

__all__ = ["PARTITION_OPTIONS", "expires_partitions", "partition_variants"]

_OPTIONS = (PARTITION_TIME, PARTITION_STRATEGY, PARTITION_PATTERN, PARTITION_FORMATTER, PARTITION_MAX)
PARTITION_OPTIONS = frozenset(option.key for option in _OPTIONS)
_ASSUMPTIONS = (
    "partitions that were dropped before the oldest snapshot of today are not in the replay",
    "writers add the same rows at the same times, also to partitions that have expired",
    "the files of an expired partition leave the storage when the snapshots that have them expire",
)


def expires_partitions(job: Job, target: Target) -> bool:
    """Return whether a question is about partitions, or partitions of the table expire by its options."""
    asks = "expire-partitions" in job.chores or not PARTITION_OPTIONS.isdisjoint(job.options)
    return asks or _expires(target)


def _expires(target: Target) -> bool:
    return bool(target.schema.partition_keys) and PARTITION_TIME.read(target.schema.options) is not None


def partition_variants(
    report: WhatIfReport, target: Target, other: Target, zone: str
) -> tuple[WhatIfReport, Drops, dict[str, Effect]]:
    """Return the report with the figures of all variants, and what would have expired in each, for the
    replays of compactions and of the expiry of snapshots. `other` has the options of the question.

    Raises InvalidInputError for a table without partitions, or if it is unknown how long they are kept.
    """
    if not target.schema.partition_keys:
        raise InvalidInputError(f"table {target.name} is not partitioned")
    request = ExpirePartitions(table=target.name, zone=zone)
    rules = {"the options of the question": expiry_rule(request, other.schema.options)}
    if not report.options:
        rules = {"the table's options": rules["the options of the question"]}
    elif _expires(target):
        rules = {"the table's options": expiry_rule(request, target.schema.options)} | rules
    history = read_partition_history(target)
    start_ms = min((one.time_ms for one in history.commits), default=report.until_ms)
    times = None if report.every_ms is None else run_times(start_ms, report.every_ms, report.until_ms)
    labels = [partition_label(target, one.values) for one in history.partitions]
    figures = [_figures("as it was", None, replay_partitions(history, None, report.until_ms), labels)]
    notes: list[str] = []
    drops: dict[str, tuple[PartitionDrop, ...]] = {}
    effects: dict[str, Effect] = {}
    for variant, rule in rules.items():
        moments = PartitionRules(rule=rule, times=times, offset_ms=partial(zone_offset_ms, zone))
        replayed = replay_partitions(history, moments, report.until_ms)
        figures.append(_figures(variant, rule, replayed, labels))
        drops[variant] = tuple(_drop(step, history.rows) for step in replayed.steps)
        effects[variant] = partial(with_expired_partitions, partitions=history, replayed=replayed)
        notes += (f"{variant}: {note}" for note in _notes(replayed, labels))
    report = replace(
        report,
        start_ms=start_ms,
        partitions=tuple(figures),
        notes=(*report.notes, *notes),
        assumptions=(*report.assumptions, *_ASSUMPTIONS),
    )
    return report, drops, effects


def _drop(step: PartitionStep, rows: Sequence[bytes]) -> PartitionDrop:
    partitions = frozenset(rows[number] for number in step.partitions)
    return PartitionDrop(time_ms=step.time_ms, snapshot=step.snapshot, partitions=partitions)


def _figures(
    variant: str, rule: ExpireRule | None, replayed: PartitionReplay, labels: Sequence[str]
) -> PartitionFigures:
    steps = replayed.steps
    return PartitionFigures(
        variant=variant,
        options={} if rule is None else _limits(rule),
        expired=sum(len(step.partitions) for step in steps),
        removed_files=sum(step.removed.files for step in steps),
        removed_bytes=sum(step.removed.bytes for step in steps),
        removed_rows=sum(step.removed.rows for step in steps),
        partitions=replayed.partitions,
        files=replayed.live.files,
        bytes=replayed.live.bytes,
        rows=replayed.live.rows,
        uncertain_bytes=replayed.uncertain.bytes + sum(step.uncertain.bytes for step in steps),
        average_bytes=replayed.average_bytes,
        peak_bytes=replayed.peak_bytes,
        runs=tuple(_run(step, labels) for step in steps),
    )


def _run(step: PartitionStep, labels: Sequence[str]) -> PartitionRun:
    return PartitionRun(
        time_ms=step.time_ms,
        snapshot=step.snapshot,
        partitions=tuple(labels[number] for number in step.partitions),
        files=step.removed.files,
        bytes=step.removed.bytes,
        rows=step.removed.rows,
        uncertain_bytes=step.uncertain.bytes,
    )


def _limits(rule: ExpireRule) -> dict[str, str]:
    limits = {
        PARTITION_TIME.key: f"{rule.expiration_ms} ms",
        PARTITION_STRATEGY.key: rule.strategy.value,
        PARTITION_PATTERN.key: rule.pattern,
        PARTITION_FORMATTER.key: rule.formatter,
        PARTITION_MAX.key: str(rule.max_expires),
    }
    return {key: value for key, value in limits.items() if value is not None}


def _notes(replayed: PartitionReplay, labels: Sequence[str]) -> Iterator[str]:
    """Yield what the history cannot show."""
    if replayed.timeless:
        yield (
            f"{len(replayed.timeless)} partitions have no time in their values and never expire: "
            f"{_some(replayed.timeless, labels)}"
        )
    if replayed.dropped:
        yield (
            f"commits of the history emptied {len(replayed.dropped)} partitions before these options would "
            f"have, so that what they would have kept is unknown: {_some(replayed.dropped, labels)}"
        )
    uncertain = replayed.uncertain.files + sum(step.uncertain.files for step in replayed.steps)
    if uncertain:
        yield (
            f"{uncertain} files replaced files of expired partitions, alone or together with others; they "
            "count as a whole, although some of their rows would have expired before, and that commit counts "
            "as their last change"
        )


def _some(numbers: Sequence[int], labels: Sequence[str]) -> str:
    return "; ".join(labels[number] for number in numbers[:3])
