"""This module defines what fsck finds, and its report."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, LakeError, NotFoundError

__all__ = ["Finding", "FindingKind", "Findings", "FsckReport"]


class FindingKind(Enum):
    """HINT and ORPHAN do no harm to readers; all others are damage.

    BYTES: a data file that cannot be decoded. ROWS: one that is not as it is described.
    COLUMN_STATISTICS: one of whose columns a manifest says what is not so; STATISTICS are those of a table.
    TIMES: one with times that lakecore reads and Java does not.
    BUCKETS: a partition whose files have different bucket counts, or wait for a bucket that they never get.
    REFERENCES: a data file with other bytes where references to blobs have to be.
    """

    HINT = "hint"
    ORPHAN = "orphan"
    SNAPSHOT = "snapshot"
    SCHEMA = "schema"
    MANIFEST = "manifest"
    TOTALS = "totals"
    LEVELS = "levels"
    BUCKETS = "buckets"
    DATA_FILE = "data-file"
    INDEX_FILE = "index-file"
    STATISTICS = "statistics"
    BYTES = "bytes"
    ROWS = "rows"
    COLUMN_STATISTICS = "column-statistics"
    KEY_ORDER = "key-order"
    TIMES = "times"
    REFERENCES = "references"

    @property
    def is_damage(self) -> bool:
        return self not in (FindingKind.HINT, FindingKind.ORPHAN)


@dataclass(frozen=True, slots=True)
class Finding:
    """This is one problem. `path` is the file or directory; `problem` says what is wrong and who needs it."""

    kind: FindingKind
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.path}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckReport:
    """It counts what was looked at, and what was wrong. `moved`: snapshots came or went meanwhile, so that
    missing files and orphans may be theirs: look again (see `verify.settled`). `young_orphans`: files that
    nobody refers to, and that a writer may have made for a commit that is still to come, or that a chore is
    about to remove; `young_bytes`: the size of the former. It pickles.
    """

    findings: tuple[Finding, ...]
    snapshots: int
    manifests: int
    data_files: int
    files_read: int
    rows_read: int
    moved: bool = False
    young_orphans: int = 0
    young_bytes: int = 0

    @property
    def damage(self) -> tuple[Finding, ...]:
        """Return the findings that can lose or change rows for readers."""
        return tuple(finding for finding in self.findings if finding.kind.is_damage)


@dataclass(slots=True)
class Findings:
    """These are the findings of a check, which are collected once each, and its counts."""

    items: dict[Finding, None] = field(default_factory=dict)
    snapshots: int = 0
    manifests: int = 0
    data_files: int = 0
    files_read: int = 0
    rows_read: int = 0
    young_orphans: int = 0
    young_bytes: int = 0

    def add(self, kind: FindingKind, path: str, problem: str) -> None:
        self.items.setdefault(Finding(kind, path, problem))

    def failed(self, kind: FindingKind, path: str, err: LakeError, needed_by: str) -> None:
        """Record why `path` could not be read. Missing files are found by listing; callers raise when
        storage does not answer: that is no finding."""
        if isinstance(err, CorruptDataError):
            self.add(kind, err.path, f"{err.problem} (needed by {needed_by})")
        elif not isinstance(err, NotFoundError):
            self.add(kind, path, f"it cannot be checked: {err} (needed by {needed_by})")

    def report(self, *, moved: bool) -> FsckReport:
        ordered = sorted(self.items, key=lambda finding: (finding.kind.value, finding.path, finding.problem))
        return FsckReport(
            findings=tuple(ordered),
            snapshots=self.snapshots,
            manifests=self.manifests,
            data_files=self.data_files,
            files_read=self.files_read,
            rows_read=self.rows_read,
            moved=moved,
            young_orphans=self.young_orphans,
            young_bytes=self.young_bytes,
        )
