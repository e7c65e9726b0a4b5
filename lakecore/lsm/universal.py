"""Universal compaction decides which sorted runs to merge next. No IO, no clock, no state.

It follows the rule of the released format (lsm.md, section 3), not of later development versions.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakecore.lsm.options import EarlyFullPolicy, UniversalPolicy
from lakecore.lsm.runs import LevelRun, Pick

__all__ = ["early_full", "force_level_0", "pick"]


def pick(runs: Sequence[LevelRun], policy: UniversalPolicy, max_level: int) -> Pick | None:
    """Choose a prefix of `runs` (newest first), or None while the bucket is in shape."""
    if len(runs) < policy.run_trigger or not runs:
        return None
    if sum(run.size for run in runs[:-1]) * 100 > policy.size_amp * runs[-1].size:
        return Pick(len(runs), max_level, "size-amp")
    if (count := _similar(runs, 1, policy.size_ratio)) > 1:
        return _output(runs, count, max_level, "size-ratio")
    if (excess := len(runs) - policy.run_trigger) > 0:
        count = _similar(runs, excess + 1, policy.size_ratio)
        return _output(runs, count, max_level, "run-count")
    return None


def force_level_0(runs: Sequence[LevelRun], policy: UniversalPolicy, max_level: int) -> Pick | None:
    """Pick as `pick` does, but never leave a level-0 file: without another reason all of them are merged."""
    chosen = pick(runs, policy, max_level)
    if chosen is not None:
        return chosen
    fresh = sum(run.level == 0 for run in runs)
    if fresh == 0:
        return None
    return _output(runs, _similar(runs, fresh, policy.size_ratio), max_level, "level-0")


def early_full(
    runs: Sequence[LevelRun], policy: EarlyFullPolicy, max_level: int, now_ms: int, last_full_ms: int | None
) -> Pick | None:
    """Pick a full compaction before the usual rules apply; `last_full_ms` None: none is known to have
    happened.
    """
    if len(runs) <= 1:
        return None
    reason = None
    interval = policy.interval_ms
    if interval is not None and (last_full_ms is None or now_ms - last_full_ms > interval):
        reason = "optimization-interval"
    elif policy.total_size is not None and sum(run.size for run in runs) < policy.total_size:
        reason = "total-size"
    elif policy.incremental_size is not None:
        above = sum(run.size for run in runs if run.level != max_level)
        reason = "incremental-size" if above > policy.incremental_size else None
    return None if reason is None else Pick(len(runs), max_level, reason)


def _similar(runs: Sequence[LevelRun], count: int, ratio: int) -> int:
    """Extend the prefix while the next run is not much larger than the prefix itself."""
    size = sum(run.size for run in runs[:count])
    for run in runs[count:]:
        if size * (100 + ratio) < run.size * 100:
            break
        size += run.size
        count += 1
    return count


def _output(runs: Sequence[LevelRun], count: int, max_level: int, reason: str) -> Pick:
    """Land just above the next run, never on level 0: rather take in runs up to the first other level."""
    level = max_level if count == len(runs) else max(0, runs[count].level - 1)
    while level == 0 and count < len(runs):
        level = runs[count].level
        count += 1
    return Pick(count, max_level if count == len(runs) else level, reason)
