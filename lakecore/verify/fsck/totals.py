"""This module compares the counts of rows that snapshots record with the rows of their files.

A table may be checked in several passes, each of which adds the rows of some buckets. So the counts are
compared when all passes are over.
"""

from __future__ import annotations

from dataclasses import field

from lakecore.data_class import dataclass
from lakecore.verify.fsck.findings import FindingKind, Findings

__all__ = ["Totals"]


@dataclass(slots=True)
class _Count:
    """`recorded` should be `before` and the rows that the passes added. `previous` is the path of the
    snapshot before, if the count continues from there.
    """

    path: str
    what: str
    recorded: int
    before: int
    previous: str = ""
    rows: int = 0
    passes: int = 0


@dataclass(slots=True)
class Totals:
    """It has the counts of all snapshots and tags, in the order of the first pass. It takes some 200 bytes a
    count.
    """

    counts: dict[tuple[str, str], _Count] = field(default_factory=dict)

    def add(self, path: str, what: str, recorded: int | None, rows: int, before: int = 0) -> None:
        """Add the rows of one pass to the count `what` of a snapshot file; `before` are those of all passes
        in earlier snapshots.
        """
        if recorded is not None:
            self._add(_Count(path, what, recorded, before), rows)

    def follow(self, path: str, previous: str, recorded: int | None, before: int | None, added: int) -> None:
        """Add the rows of one pass to the change from the snapshot before to this one, where both record
        their count.
        """
        if recorded is not None and before is not None:
            self._add(_Count(path, "follow", recorded, before, previous), added)

    def _add(self, count: _Count, rows: int) -> None:
        count = self.counts.setdefault((count.path, count.what), count)
        count.rows += rows
        count.passes += 1

    def report(self, findings: Findings, passes: int) -> None:
        """Add what is wrong to the findings. A count that some of the passes could not make is left out."""
        for count in self.counts.values():
            actual = count.before + count.rows
            if count.passes != passes or count.recorded == actual:
                continue
            if not count.previous:
                problem = f"{count.what} is {count.recorded}, but its files hold {actual} rows"
                findings.add(FindingKind.TOTALS, count.path, problem)
            elif not _has_wrong_total(findings, count):
                problem = (
                    f"totalRecordCount is {count.recorded}, but the snapshot before gives "
                    f"{actual}: it was built on another snapshot, which a writer replaced "
                    "afterwards; the changes of "
                    "the snapshot before are missing in it"
                )
                findings.add(FindingKind.TOTALS, count.path, problem)


def _has_wrong_total(findings: Findings, count: _Count) -> bool:
    """Return whether one of two snapshots is wrong by itself."""
    pair = (count.path, count.previous)
    return any(one.kind is FindingKind.TOTALS and one.path in pair for one in findings.items)
