"""A history: a table and what happens to it, step by step, by lakecore and by Java. Plain values, JSON both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["FORK", "LAKE", "NEW", "OLD", "TWIN", "History", "Step"]

LAKE, OLD, NEW = "lakecore", "1.4.2", "2.0.0"
TWIN, FORK = "twin", "fork"


@dataclass(frozen=True)
class Step:
    """`op`: what is done; `by`: who does it. The rest as the op needs it.

    Ops: write, overwrite, compact, alter, delete, expire, tag, untag, rollback (to a tag), branch (from a tag),
    unbranch, orphans (removes them), drop (a partition).

    `keep`: snapshots that an expiry leaves. `rows`: JSON rows, `_kind` allowed. `full`: a compaction of all
    files. `copy`: what a compaction by lakecore copies. `change`: one line of an ALTER in the oracle's JSON. `name`: of a tag or branch; `tag`: that a branch
    begins with. `partition`: a static overwrite of it, None: of everything, or of what the rows touch; or the
    partition to drop. `where`, `buckets`: a compaction by lakecore of this part only. `meanwhile`: what Java
    does between the plan and the commit of a compaction by lakecore.
    """

    op: str
    by: str
    rows: tuple[Mapping[str, Any], ...] = ()
    full: bool = False
    change: Mapping[str, Any] | None = None
    partition: Mapping[str, Any] | None = None
    proof: str = ""
    copy: str = ""
    keep: int = 0
    name: str = ""
    tag: str = ""
    where: str = ""
    buckets: str = ""
    meanwhile: Step | None = None

    @property
    def partial(self) -> bool:
        """Whether a compaction leaves a part of the table out."""
        return bool(self.where or self.buckets)

    def __str__(self) -> str:
        part = f" of {self.where or 'all'} buckets {self.buckets or 'all'}" if self.partial else ""
        what = {
            "compact": ("full" if self.full else "universal") + part,
            "alter": json.dumps(self.change),
            "drop": str(self.partition),
        }
        text = f"{self.by} {self.op} {what.get(self.op, self.name or f'{len(self.rows)} rows')}"
        return text + (f" while {self.meanwhile}" if self.meanwhile else "")


@dataclass(frozen=True)
class History:
    """`table`: columns (name, type), primaryKeys, partitionKeys, options, as the oracle's create takes it.

    `judge`: TWIN compares with a table of the same history where Java does all. FORK compares each step of
    lakecore with the same step of Java on a copy of the table: also where rows depend on when it was compacted.
    """

    seed: int
    table: Mapping[str, Any]
    steps: tuple[Step, ...] = field(default_factory=tuple)
    judge: str = TWIN

    def to_json(self) -> str:
        plain = {"seed": self.seed, "judge": self.judge, "table": self.table}
        return json.dumps(
            plain | {"steps": [_plain(step) for step in self.steps]}, indent=1, ensure_ascii=False
        )

    @classmethod
    def from_json(cls, text: str) -> History:
        raw = json.loads(text)
        steps = tuple(map(_step, raw["steps"]))
        return cls(raw["seed"], raw["table"], steps, raw.get("judge", TWIN))


def _step(raw: Mapping[str, Any]) -> Step:
    meanwhile = {"meanwhile": _step(raw["meanwhile"])} if "meanwhile" in raw else {}
    return Step(**{**raw, "rows": tuple(raw.get("rows", ())), **meanwhile})


def _plain(step: Step) -> dict[str, Any]:
    blank = Step("", "")
    return {
        name: _plain_value(value)
        for name in Step.__dataclass_fields__
        if (value := getattr(step, name)) != getattr(blank, name)
    }


def _plain_value(value: Any) -> Any:
    if isinstance(value, Step):
        return _plain(value)
    return list(value) if isinstance(value, tuple) else value
