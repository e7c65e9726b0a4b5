"""A history: a table and what happens to it, step by step, by lakecore and by Java. Plain values, JSON both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LAKE", "NEW", "OLD", "History", "Step"]

LAKE, OLD, NEW = "lakecore", "1.4.2", "2.0.0"


@dataclass(frozen=True)
class Step:
    """`op`: write, overwrite, compact, alter, delete, expire, tag, untag. `by`: who does it. The rest as the op needs it.

    `keep`: snapshots that an expiry leaves. `rows`: JSON rows, `_kind` allowed. `full`: a compaction of all files. `change`: one line of an ALTER in the
    oracle's JSON. `name`: of a tag. `partition`: a static overwrite of it, None: of everything, or of what the rows touch.
    """

    op: str
    by: str
    rows: tuple[Mapping[str, Any], ...] = ()
    full: bool = False
    change: Mapping[str, Any] | None = None
    partition: Mapping[str, Any] | None = None
    proof: str = "sampled"
    keep: int = 0
    name: str = ""

    def __str__(self) -> str:
        what = {
            "compact": "full" if self.full else "universal",
            "alter": json.dumps(self.change),
            "tag": self.name,
            "untag": self.name,
        }
        return f"{self.by} {self.op} {what.get(self.op, f'{len(self.rows)} rows')}"


@dataclass(frozen=True)
class History:
    """`table`: columns (name, type), primaryKeys, partitionKeys, options, as the oracle's create takes it."""

    seed: int
    table: Mapping[str, Any]
    steps: tuple[Step, ...] = field(default_factory=tuple)

    def to_json(self) -> str:
        plain = {"seed": self.seed, "table": self.table, "steps": [_plain(step) for step in self.steps]}
        return json.dumps(plain, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> History:
        raw = json.loads(text)
        steps = tuple(Step(**{**step, "rows": tuple(step.get("rows", ()))}) for step in raw["steps"])
        return cls(raw["seed"], raw["table"], steps)


def _plain(step: Step) -> dict[str, Any]:
    blank = Step("", "")
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name in Step.__dataclass_fields__
        if (value := getattr(step, name)) != getattr(blank, name)
    }
