"""This module describes the plan of a scan: its splits, and the files that it leaves out."""

from __future__ import annotations

from lakecore.data_class import dataclass
from lakecore.display import html_table, one_line
from lakecore.predicate.tree import Predicate
from lakecore.read.source.resolve_blobs import ResolvedBlobRows, without_resolved_blobs
from lakecore.read.source.scan import RowSource
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.scan.scanner import SkippedFiles

__all__ = ["ScanReport", "scan_report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """It describes a plan. Row groups, pages and rows that a reader skips in a file are not in it."""

    description: str
    """It names the table, and what of it is read."""
    splits: int
    """The plan has so many splits, or parts of another source."""
    files: int | None
    """The splits have so many files; None where the parts are no splits of files."""
    size: int | None
    """The files have so many bytes."""
    merged_splits: int | None
    """So many splits are merged by key; the others are read file by file."""
    skipped: tuple[SkippedFiles, ...]
    """These steps of the plan left out files, in their order."""

    def __repr__(self) -> str:
        """Return the plan on one line."""
        return one_line("ScanReport", self.description, self._facts())

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        return html_table("ScanReport", self.description, self._facts())

    def _facts(self) -> dict[str, object]:
        return {
            "splits": self.splits,
            "files": self.files,
            "bytes": self.size,
            "merged splits": self.merged_splits,
            **{f"skipped by {one.reason}": f"{one.files} files, {one.size} bytes" for one in self.skipped},
        }


def scan_report(source: RowSource, where: Predicate | None) -> ScanReport:
    """Plan and describe the plan. Of a table it costs a plan of all files."""
    rows = without_resolved_blobs(source)
    if not isinstance(rows, SnapshotRows):
        return ScanReport(
            description=source.description,
            splits=len(source.plan(where)),
            files=None,
            size=None,
            merged_splits=None,
            skipped=(),
        )
    pushed = source.below(where) if isinstance(source, ResolvedBlobRows) else where
    plan, skipped = rows.explain(pushed)
    return ScanReport(
        description=source.description,
        splits=len(plan),
        files=plan.file_count,
        size=plan.size,
        merged_splits=int((~plan.raw_convertible).sum()),
        skipped=skipped,
    )
