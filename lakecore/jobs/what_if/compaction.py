"""This module replays compactions: those of the history, those by the options of the table, and those by the
options of the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from lakecore.clock import Clock
from lakecore.compact.engine.strategy import Strategy
from lakecore.jobs.runner.forecast import COMPACT, Work, expected_seconds
from lakecore.jobs.runner.lake import Lake, rewrite_target, target_of
from lakecore.jobs.what_if.merges import (
    CompactionHistory,
    CompactionReplay,
    PartitionDrop,
    ReplayRules,
    ReplayRun,
    read_commits,
    replay_compactions,
)
from lakecore.jobs.what_if.report import CompactionFigures, CompactionRun, WhatIfReport
from lakecore.lsm import options as lsm_options
from lakecore.maintain.replay.plan import run_times
from lakecore.metadata.options import TARGET_FILE_SIZE
from lakecore.options import Option
from lakecore.table import Table

__all__ = ["Drops", "compaction_options", "compaction_variants"]

Drops: TypeAlias = Mapping[str, Sequence[PartitionDrop]]
"""These partitions would have expired, by the variant of the replay."""

_APPEND = frozenset(
    one.key
    for one in (
        lsm_options.MIN_FILES,
        lsm_options.SMALL_RATIO,
        lsm_options.DELETE_RATIO,
        lsm_options.OPEN_FILE_COST,
    )
)
_BOTH = frozenset({TARGET_FILE_SIZE.key, lsm_options.SMALL_RATIO.key})
_ALL = frozenset(one.key for one in vars(lsm_options).values() if isinstance(one, Option))
_EXPIRED = "partitions expire before the compaction of the same moment, which finds what writers add later"
_ASSUMPTIONS = (
    "writers add the same files at the same times, whatever compactions do",
    "a pick is exact where its bucket is as it really was; later picks build on estimated sizes",
)


def compaction_options(table: Table) -> frozenset[str]:
    """Return the options that change the picks of a table."""
    return ((_ALL - _APPEND) if table.schema.primary_keys else _APPEND) | _BOTH


def compaction_variants(
    report: WhatIfReport, lake: Lake, clock: Clock, strategy: Strategy | None, drops: Drops
) -> WhatIfReport:
    """Return the report with the figures of all variants. `drops` are the partitions that would have expired.
    Raises UnsupportedError for kinds of tables whose compactions cannot be replayed.
    """
    table, other = (lake.load_table(report.table, options) for options in ({}, report.options))
    history = read_commits(rewrite_target(table, clock))
    times = [one.snapshot.time_millis for one in history.commits]
    runs = None
    if report.every_ms is not None:
        runs = run_times(min(times, default=report.until_ms), report.every_ms, report.until_ms)
    figures = [_history_figures(table, clock, history, report.until_ms)]
    asks = bool(report.options) or strategy is not None
    expired_first = (_EXPIRED,) if any(drops.values()) else ()
    for variant, one, way in (
        ("the table's options", table, Strategy.UNIVERSAL),
        ("the options of the question", other, strategy or Strategy.UNIVERSAL),
    ):
        if one is table or asks:
            target = rewrite_target(one, clock)
            rules = ReplayRules(strategy=way, times=runs, drops=drops.get(variant, ()))
            replayed = replay_compactions(target, history, rules, report.until_ms)
            seconds = _seconds(one, lake, clock, replayed)
            options = {
                key: one.schema.options[key] for key in sorted(_ALL | _BOTH) if key in one.schema.options
            }
            figures.append(_figures(variant, history, replayed, (way.value, options, seconds)))
    return replace(
        report,
        start_ms=min(times, default=report.until_ms),
        compaction=tuple(figures),
        assumptions=(*report.assumptions, _sizes_assumption(history), *_ASSUMPTIONS, *expired_first),
    )


def _sizes_assumption(history: CompactionHistory) -> str:
    """Return what the replay assumes of the sizes of merged files."""
    average, keyed = history.sizes.average, history.sizes.keyed
    uncut = "; files of tables with keys are not cut at the target size" if keyed else ""
    if not average.compactions:
        return (
            f"a merged file is as large as its inputs together, because the history has no compaction{uncut}"
        )
    plural = "s" if average.compactions != 1 else ""
    share = f"{average.bytes} of the bytes on average, from {average.compactions} compaction{plural}"
    if not keyed:
        return f"merged files have the part of their inputs that compactions of the history left ({share})"
    return (
        "the keys of files overlap as at random, and as much as in the compaction of the bucket that is"
        f" nearest in time (compactions of the history left {share}){uncut}"
    )


def _history_figures(
    table: Table, clock: Clock, history: CompactionHistory, until_ms: int
) -> CompactionFigures:
    """Return the figures of what really happened."""
    replayed = replay_compactions(rewrite_target(table, clock), history, None, until_ms)
    one = _figures("as it was", history, replayed, ("", {}, None))
    return replace(
        one,
        compactions=history.compactions,
        read_bytes=history.read_bytes,
        written_bytes=history.written_bytes,
        write_amplification=_amplification(history, history.written_bytes),
    )


def _figures(
    variant: str,
    history: CompactionHistory,
    replayed: CompactionReplay,
    how: tuple[str, Mapping[str, str], float | None],
) -> CompactionFigures:
    strategy, options, seconds = how
    runs = tuple(map(_run, replayed.runs))
    written = sum(run.written_bytes for run in runs)
    return CompactionFigures(
        variant=variant,
        strategy=strategy,
        options=options,
        compactions=len(runs),
        picks=sum(run.picks for run in runs),
        exact_picks=sum(run.exact_picks for run in runs),
        read_bytes=sum(run.read_bytes for run in runs),
        written_bytes=written,
        ingested_bytes=history.ingested_bytes,
        write_amplification=_amplification(history, written),
        average_runs=replayed.average_runs,
        most_runs=replayed.most_runs,
        files=replayed.files,
        seconds=seconds,
        resets=replayed.resets,
        runs=runs,
    )


def _amplification(history: CompactionHistory, written: int) -> float | None:
    if not history.ingested_bytes:
        return None
    return round((history.ingested_bytes + written) / history.ingested_bytes, 3)


def _run(run: ReplayRun) -> CompactionRun:
    picks = run.picks
    return CompactionRun(
        time_ms=run.time_ms,
        snapshot=run.snapshot,
        picks=len(picks),
        exact_picks=sum(pick.exact for pick in picks),
        read_bytes=sum(pick.read_bytes for pick in picks),
        written_bytes=sum(pick.written_bytes for pick in picks),
        runs_before=run.runs_before,
        runs_after=run.runs_after,
    )


def _seconds(table: Table, lake: Lake, clock: Clock, replayed: CompactionReplay) -> float:
    """Return how long all compactions take, from the average one."""
    count = len(replayed.runs)
    if not count:
        return 0.0
    files = [file for run in replayed.runs for pick in run.picks for file in pick.rewritten]
    work = Work(
        files=len(files) // count,
        bytes=sum(file.file_size for file in files) // count,
        rows=sum(file.row_count for file in files) // count,
    )
    return round(count * expected_seconds(target_of(table, lake, clock), COMPACT, work), 3)
