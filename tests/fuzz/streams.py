"""The change stream of the table as lakecore and Java read it, followed over the steps of a history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakecore.table import Table
from tests.fuzz.failures import Failed, difference
from tests.fuzz.row_lines import changed_lines, line

__all__ = ["Followed"]

Plan = Mapping[str, Any]


class Followed:
    """`next_snapshot`: the first that was not compared yet. `changes`: Java's rows of each plan so far."""

    def __init__(self) -> None:
        self.next_snapshot = 1
        self.changes: list[Sequence[Mapping[str, Any]]] = []
        self.whole = True

    def skip_to(self, snapshot: int) -> None:
        """Go on at `snapshot`; the stream has a hole from now on."""
        self.next_snapshot = snapshot
        self.whole = False

    def compare(self, table: Table, plans: Sequence[Plan], step: int) -> None:
        """Both have the same changes, plan by plan. Raises Failed."""
        stream = table.stream(snapshot=self.next_snapshot, as_written=True)
        for plan in plans:
            changes = stream.poll()
            ours = [] if changes is None else sorted(changed_lines(changes.to_batches(), changes.rows))
            right = sorted(line(row) for row in plan["rows"])
            if ours != right:
                text = difference(ours, right, "lakecore", "java")
                raise Failed("streams differ", step, f"snapshots {plan['snapshots']}: {text}")
        if (more := stream.poll()) is not None:
            raise Failed("streams differ", step, f"lakecore goes on with snapshot {more.snapshot.id}")
        self.changes += [plan["rows"] for plan in plans]
