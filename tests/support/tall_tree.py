"""Histories that leave rows and deletes of one key on several levels at once, in every combination.

Each key is a number whose digits to base three say what every stage writes of it: nothing, a row or a delete.
The stages end on levels 5, 4, 3 and 0 (twice), so all ways in which a key can lie in a tree are there.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

__all__ = ["CASES", "ENGINES", "PRODUCERS", "STAGES", "definition", "run_limit", "stages"]

STAGES = 4
"""How many stages write; the last one writes twice and is not compacted."""

ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "deduplicate by a field": {"sequence.field": "n"},
    "partial-update": {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
    },
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "aggregation.remove-record-on-delete": "true",
    },
    "first-row": {"merge-engine": "first-row"},
}
PRODUCERS: dict[str, dict[str, str]] = {
    "none": {},
    "lookup": {"changelog-producer": "lookup"},
    "lookup, only changes": {"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"},
    "full-compaction": {"changelog-producer": "full-compaction"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "lookup and deletion vectors": {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
}
CASES = [
    (engine, producer)
    for engine in ENGINES
    for producer in PRODUCERS
    if engine != "first-row" or producer in ("none", "lookup")
]
"""Engines and producers that go together."""

_OPTIONS = {
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


def definition(options: dict[str, str]) -> dict[str, Any]:
    """A table `k INT, n BIGINT, s STRING`."""
    columns = ["k INT", "n BIGINT", "s STRING"]
    return {"columns": columns, "primaryKeys": ["k"], "options": {**_OPTIONS, **options}}


def stages(*, deletes: bool) -> Iterator[list[list[Row]]]:
    """For each stage its two commits. Without `deletes`: rows only."""
    dice = random.Random(7)
    for stage in range(STAGES):
        commits: list[list[Row]] = [[], []]
        for key in range(3**STAGES):
            kind = ("", "+I", "-D" if deletes else "+I")[key // 3**stage % 3]
            if kind:
                commits[key % 2].append({**_row(key, stage), "_kind": kind})
        padding = "".join(chr(dice.randrange(0x4E00, 0x9FA5)) for _ in range(_PADDING[stage] // 3))
        commits[0].append({**_row(1000 + stage, stage), "s": padding, "_kind": "+I"})
        yield commits


def _row(key: int, stage: int) -> Row:
    return {"k": key, "n": stage, "s": f"{key}.{stage}"}
