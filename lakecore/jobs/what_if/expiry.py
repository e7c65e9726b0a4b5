"""This module replays the expiry of snapshots, tags and changelogs: without any, with the options of the
table, and with those of the question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from lakecore.errors import InvalidInputError
from lakecore.jobs.runner.forecast import Work, expected_seconds
from lakecore.jobs.runner.retention import NO_LIMITS, changelog_retention, changelogs_live_longer
from lakecore.jobs.what_if.report import ExpiryFigures, ExpiryRun, WhatIfReport
from lakecore.maintain.auto_tags.options import MODE, NUM_RETAINED, num_retained
from lakecore.maintain.auto_tags.plan import CreationMode
from lakecore.maintain.deletion.quarantined import quarantined_roots
from lakecore.maintain.deletion.runs import RunStore
from lakecore.maintain.replay.lifetimes import HistoryRules, read_history
from lakecore.maintain.replay.plan import (
    ExpiryHistory,
    ExpiryReplay,
    ExpiryRules,
    ExpiryStep,
    StoredBytes,
    replay_expiry,
    run_times,
)
from lakecore.maintain.retention_options import (
    CHANGELOG_MAX,
    CHANGELOG_MIN,
    CHANGELOG_TIME,
    CONSUMER_CHANGELOG_ONLY,
    EXPIRE_LIMIT,
    SNAPSHOT_MAX,
    SNAPSHOT_MIN,
    SNAPSHOT_TIME,
    TAG_DEFAULT_TIME,
)
from lakecore.maintain.target import Target

__all__ = ["EXPIRY_OPTIONS", "Effect", "expiry_rules", "expiry_variants", "history_of"]

EXPIRY_OPTIONS = frozenset(
    option.key
    for option in (
        SNAPSHOT_MAX,
        SNAPSHOT_MIN,
        SNAPSHOT_TIME,
        EXPIRE_LIMIT,
        CHANGELOG_MAX,
        CHANGELOG_MIN,
        CHANGELOG_TIME,
        CONSUMER_CHANGELOG_ONLY,
        TAG_DEFAULT_TIME,
        NUM_RETAINED,
    )
)
_MOST_POINTS = 200

Effect: TypeAlias = Callable[[ExpiryHistory], ExpiryHistory]
"""This is what an expiry of partitions makes of a history."""

_ASSUMPTIONS = (
    "what expired before the oldest snapshot of today is not in the replay",
    "consumers hold back what they hold back today, because their earlier positions are not recorded",
    "other branches and the quarantine keep their files all the time",
)
_WITH_PARTITIONS = (
    "ids of snapshots count those that the expiry of partitions would have committed; the manifests of these "
    "are not counted, and only data files end earlier"
)


def expiry_variants(
    report: WhatIfReport, target: Target, other: Target, effects: Mapping[str, Effect]
) -> WhatIfReport:
    """Return the report with the figures of all variants. `other` has the options of the question, and
    `effects` what partitions that expire change, by the variant. Raises InvalidInputError for a number of
    automatic tags where the table makes none.
    """
    if NUM_RETAINED.key in report.options and MODE.read(target.schema.options) is CreationMode.NONE:
        raise InvalidInputError(
            f"option {NUM_RETAINED.key} changes nothing: the table makes no automatic tags "
            f"({MODE.key}={CreationMode.NONE.value})"
        )
    history = history_of(target)
    times = [one.time_ms for one in history.snapshots]
    start_ms = min(times, default=report.until_ms)
    runs = None if report.every_ms is None else run_times(start_ms, report.every_ms, report.until_ms)
    figures = [_figures("no expiry", None, history, replay_expiry(history, None, (), report.until_ms))]
    for variant, one in (("the table's options", target), ("the options of the question", other)):
        if one is other and not report.options:
            continue
        at = history if one is target else history_of(other)
        at = effects[variant](at) if variant in effects else at
        replayed = replay_expiry(at, expiry_rules(one, report.options), runs, report.until_ms)
        figures.append(_figures(variant, one, at, replayed))
    assumptions = list(_ASSUMPTIONS)
    if any(holder.snapshot is not None and holder.created_ms is None for holder in history.holders):
        assumptions.append("tags without a recorded time were created with their snapshot")
    if TAG_DEFAULT_TIME.key in report.options:
        assumptions.append(
            f"{TAG_DEFAULT_TIME.key} holds for all tags, also for those with a time of their own"
        )
    if NUM_RETAINED.key in report.options:
        assumptions.append("automatic tags that were deleted before today are not in the replay")
    if effects:
        assumptions.append(_WITH_PARTITIONS)
    return replace(
        report,
        start_ms=start_ms,
        expiry=tuple(figures),
        assumptions=(*report.assumptions, *assumptions),
    )


def history_of(target: Target) -> ExpiryHistory:
    """Read the history of a table, with the options of `target`."""
    raw = target.schema.options
    limits = expiry_rules(target, {}).at(target.clock.now_ms())
    rules = HistoryRules(
        consumers_hold=not CONSUMER_CHANGELOG_ONLY.read(raw),
        changelogs_stay=changelogs_live_longer(limits, target),
    )
    runs = RunStore(target.file_io, target.warehouse, target.clock)
    return read_history(target, rules, quarantined_roots(runs, target.name))


def expiry_rules(target: Target, overrides: Mapping[str, str]) -> ExpiryRules:
    """Return the limits by the options of `target`. Tags obey a new time, and a new number of automatic tags,
    only if these were asked for. Raises InvalidOptionError for a number that keeps no tag.
    """
    raw = target.schema.options
    return ExpiryRules(
        retain_max=SNAPSHOT_MAX.read(raw),
        retain_min=SNAPSHOT_MIN.read(raw),
        retention_ms=SNAPSHOT_TIME.read(raw),
        max_deletes=EXPIRE_LIMIT.read(raw),
        tag_ms=TAG_DEFAULT_TIME.read(overrides) if TAG_DEFAULT_TIME.key in overrides else None,
        automatic_tags=num_retained(overrides),
        changelogs=_changelog_rules(target),
    )


def _changelog_rules(target: Target) -> ExpiryRules:
    """Return the limits of changelogs that outlive their snapshots, as `expire-changelogs` takes them."""
    raw, now_ms = target.schema.options, target.clock.now_ms()
    limits = changelog_retention(NO_LIMITS, target)
    return ExpiryRules(
        retain_max=limits.retain_max,
        retain_min=limits.retain_min,
        retention_ms=now_ms - limits.older_than_ms,
        max_deletes=EXPIRE_LIMIT.read(raw),
    )


def _figures(
    variant: str, target: Target | None, history: ExpiryHistory, replayed: ExpiryReplay
) -> ExpiryFigures:
    last = replayed.points[-1] if replayed.points else StoredBytes(time_ms=0, files=0, bytes=0)
    steps = replayed.steps
    return ExpiryFigures(
        variant=variant,
        options={} if target is None else _limits(target),
        expired_snapshots=sum(len(step.snapshots) for step in steps),
        expired_changelogs=sum(len(step.changelogs) for step in steps),
        removed_files=sum(step.files for step in steps),
        removed_bytes=sum(step.bytes for step in steps),
        snapshots=len(replayed.snapshots),
        files=last.files,
        bytes=last.bytes,
        average_bytes=replayed.average_bytes,
        peak_bytes=replayed.peak_bytes,
        seconds=0.0 if target is None else _seconds(target, steps),
        blocker=replayed.blocker,
        holdings=replayed.holdings,
        impossible_tags=replayed.impossible_tags,
        runs=tuple(map(_run, steps)),
        points=_evenly_chosen(replayed.points),
    )


def _limits(target: Target) -> dict[str, str]:
    raw = target.schema.options
    limits = {option.key: str(option.read(raw)) for option in (SNAPSHOT_MAX, SNAPSHOT_MIN, EXPIRE_LIMIT)}
    return limits | {SNAPSHOT_TIME.key: f"{SNAPSHOT_TIME.read(raw)} ms"}


def _seconds(target: Target, steps: tuple[ExpiryStep, ...]) -> float:
    """Return how long the runs take, from the average one."""
    if not steps:
        return 0.0
    files, size = (sum(getattr(step, name) for step in steps) // len(steps) for name in ("files", "bytes"))
    return round(len(steps) * expected_seconds(target, "expire-snapshots", Work(files=files, bytes=size)), 3)


def _run(step: ExpiryStep) -> ExpiryRun:
    ids = step.snapshots
    return ExpiryRun(
        time_ms=step.time_ms,
        first_snapshot=ids[0] if ids else None,
        last_snapshot=ids[-1] if ids else None,
        tags=step.tags,
        changelogs=step.changelogs,
        files=step.files,
        bytes=step.bytes,
        blocker=step.blocker,
    )


def _evenly_chosen(points: tuple[StoredBytes, ...]) -> tuple[StoredBytes, ...]:
    """Return at most so many points, evenly chosen, with the last one."""
    stride = -(-len(points) // _MOST_POINTS) or 1
    return points[(len(points) - 1) % stride :: stride] if points else ()
