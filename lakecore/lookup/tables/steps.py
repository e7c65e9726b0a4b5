"""This module decides what a lookup table does about each snapshot that follows its position. Pure.

Rules of Paimon's LookupDataTableScan: a stream's changes are read, and an overwrite whose changes are not
read leads to a new load. Beyond it, rows that change without a change that a stream reads lead to a new
load, too: deleted rows of append tables, columns of data evolution, and postponed rows that a compaction
puts into buckets.
"""

from __future__ import annotations

from enum import Enum

from lakecore.data_class import dataclass
from lakecore.metadata.options import BucketMode, ChangelogProducer, TableOptions
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.scan.stream_policy import ChangeKind, StreamPolicy

__all__ = ["Step", "StepRules"]


class Step(Enum):
    """It says what follows from a snapshot."""

    NOTHING = "its rows are those of the snapshot before"
    CHANGES = "its changes are applied"
    LOAD = "the table is loaded again, if the snapshot changed a partition that is kept"


_STEPS = {
    CommitKind.APPEND: Step.NOTHING,
    CommitKind.COMPACT: Step.CHANGES,
    CommitKind.OVERWRITE: Step.LOAD,
}


@dataclass(frozen=True, slots=True)
class StepRules:
    """These are the rules of one table."""

    policy: StreamPolicy
    options: TableOptions
    orders_by_sequence: bool = False
    """It tells whether a row with a lower sequence does not replace the present one."""
    follows_compactions: bool = False
    """It tells whether compactions tell the changes, and not the stream (Paimon's compact-delta-monitor)."""

    @property
    def replaces(self) -> bool:
        """Tell whether only the rows that an overwrite removes and adds are read: they have keys, and no
        sequence by which a removed row could win.
        """
        return self.policy.keyed and not self.orders_by_sequence

    def step(self, snapshot: Snapshot, before: Snapshot | None) -> tuple[Step, ChangeKind]:
        """Return what to do about a snapshot, given the one before it, if that is known."""
        kind = self.policy.changes_of(snapshot)
        if snapshot.commit_kind is CommitKind.ANALYZE:
            return Step.NOTHING, kind
        if snapshot.commit_kind is CommitKind.OVERWRITE and self.replaces:
            return Step.CHANGES, ChangeKind.REPLACED
        if self.follows_compactions:
            return _STEPS[snapshot.commit_kind], kind
        if snapshot.commit_kind is CommitKind.OVERWRITE and not (
            self.policy.keyed and kind is ChangeKind.REPLACED
        ):
            return Step.LOAD, kind
        if self._hides_changes(snapshot, before):
            return Step.LOAD, kind
        return (Step.NOTHING if kind is ChangeKind.NOTHING else Step.CHANGES), kind

    def _hides_changes(self, snapshot: Snapshot, before: Snapshot | None) -> bool:
        compacted = snapshot.commit_kind is CommitKind.COMPACT
        if self.policy.keyed:
            postponed = self.options.bucket_mode is BucketMode.POSTPONE
            return compacted and postponed and self.policy.producer is ChangelogProducer.NONE
        if compacted:
            return False
        marked = before is None or before.index_manifest != snapshot.index_manifest
        return self.options.data_evolution or (marked and snapshot.index_manifest is not None)
