"""How the play of a history ends early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

__all__ = ["Failed", "TwinBrokenError", "difference"]


class Failed(Exception):
    """Something differs: `kind` for telling failures apart, `step` its number (-1: at the end)."""

    def __init__(self, kind: str, step: int, detail: str) -> None:
        super().__init__(f"step {step}: {kind}: {detail}")
        self.kind = kind
        self.step = step


class TwinBrokenError(Exception):
    """Java cannot go on with its own table: nothing to compare with."""


def difference(ours: Sequence[str], right: Sequence[str], left_name: str, right_name: str) -> str:
    """A few lines that only one of the two has."""
    more, less = Counter(ours) - Counter(right), Counter(right) - Counter(ours)
    return f"only {left_name}: {list(more.elements())[:4]}; only {right_name}: {list(less.elements())[:4]}"
