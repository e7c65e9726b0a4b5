"""What a consumer of the change stream ends up with. Pure.

Rule of the format: a table that looks rows up, or announces full compactions, announces for each key what it
was and what it is. So a row that is taken back is the row that was announced before, and no key has two rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["replayed"]

_AWAY = ("-U", "-D")


def replayed(
    snapshots: Iterable[Sequence[Mapping[str, Any]]], keys: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The rows that stand at the end, as lines with `_kind` +I, and what contradicts the rows before it."""
    standing: dict[str, str] = {}
    problems: list[str] = []
    for number, rows in enumerate(snapshots):
        for row in sorted(rows, key=lambda row: row["_kind"] not in _AWAY):
            key = json.dumps([row[name] for name in keys])
            text = json.dumps({**row, "_kind": "+I"}, sort_keys=True, ensure_ascii=False)
            if row["_kind"] in _AWAY:
                if standing.pop(key, None) != text:
                    problems.append(f"plan {number}: {row} takes back what was not announced")
            elif key in standing:
                problems.append(f"plan {number}: {row} comes beside {standing[key]}")
            else:
                standing[key] = text
    return sorted(standing.values()), problems
