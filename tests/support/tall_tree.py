"""Histories that leave rows and deletes of one key on several levels at once, in every combination.

Each key is a number whose digits to base three say what every stage writes of it: nothing, a row or a delete.
The stages end on levels 5, 4, 3 and 0 (twice), so all ways in which a key can lie in a tree are there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["OPTIONS", "STAGES", "run_limit", "stages"]

STAGES = 4
"""How many stages write; the last one writes twice and is not compacted."""

OPTIONS = {
    "bucket": "1",
    "write-only": "true",
    "num-levels": "6",
    "compaction.size-ratio": "0",
    "compaction.max-size-amplification-percent": "100000",
}
"""Nothing but the number of runs decides how many of them are merged."""


def run_limit(stage: int, taken: int = 2) -> dict[str, str]:
    """The option with which a compaction after `stage` takes up the newest `taken` runs."""
    return {"num-sorted-run.compaction-trigger": str(3 + stage - taken)}


_PADDING = (60_000, 20_000, 5_000, 0)
"""Bytes that make every level larger than the one before it, or the merge would take it up too."""

Row = dict[str, Any]


def stages(*, deletes: bool, row: Callable[[int, int], Row]) -> Iterator[list[list[Row]]]:
    """For each stage its two commits. `row(key, stage)`: the values of a row. Without `deletes`: rows only."""
    dice = random.Random(7)
    for stage in range(STAGES):
        commits: list[list[Row]] = [[], []]
        for key in range(3**STAGES):
            kind = ("", "+I", "-D" if deletes else "+I")[key // 3**stage % 3]
            if kind:
                commits[key % 2].append({**row(key, stage), "_kind": kind})
        padding = "".join(chr(dice.randrange(0x4E00, 0x9FA5)) for _ in range(_PADDING[stage] // 3))
        commits[0].append({**row(1000 + stage, stage), "s": padding, "_kind": "+I"})
        yield commits
