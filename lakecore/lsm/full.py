"""Full compaction merges everything to the last level."""

from __future__ import annotations

from collections.abc import Sequence

from lakecore.lsm.runs import LevelRun, Pick

__all__ = ["pick"]


def pick(runs: Sequence[LevelRun], max_level: int, *, force_rewrite: bool = False) -> Pick | None:
    """Return all runs, or None when they already are one run on the last level (unless it must be
    rewritten).
    """
    if not runs:
        return None
    if len(runs) == 1 and runs[0].level == max_level and not force_rewrite:
        return None
    return Pick(len(runs), max_level, "full")
