"""This module prints the output of commands that change rows."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from lakecore.cli.output import print_json
from lakecore.cli.session import Session
from lakecore.commit.request import CommitResult
from lakecore.data_class import dataclass
from lakecore.table import Table

__all__ = ["ChangedRows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRows:
    """`verb` says what was done to rows, as in "nothing deleted". `message` and `nothing` are the whole of
    it, in words.

    `more`: what JSON has besides.
    """

    table: Table
    rows: int
    commit: CommitResult
    verb: str
    message: str
    nothing: str
    more: dict[str, Any] = field(default_factory=dict)

    def print(self, session: Session) -> None:
        """Print the result as JSON, or as a line."""
        result = self.commit
        session.warn(self.table.name, result.notes)
        if session.json:
            answer = {"table": self.table.name, "rows": self.rows, **self.more}
            answer |= {"snapshots": list(result.snapshot_ids), "duplicate": result.duplicate}
            answer["notes"] = list(result.notes)
            print_json(session.out, answer)
            return
        if result.duplicate:
            text = f"nothing {self.verb}: this commit user and identifier had committed before"
        elif not result.snapshot_ids:
            text = self.nothing
        else:
            text = f"{self.message} in snapshot {result.snapshot_ids[-1]}"
        session.out.print(f"{self.table.name}: {text}", markup=False)
