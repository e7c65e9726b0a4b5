"""This module looks before an expiry is published whether its partitions were written meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakecore.commit.request import Examine
from lakecore.data_class import dataclass
from lakecore.errors import CommitConflictError
from lakecore.maintain.partitions.apply import PartitionAges, partition_label
from lakecore.maintain.partitions.live_files import LiveFiles
from lakecore.maintain.partitions.plan import AgedPartition, ExpireRule, ExpireStrategy, expired_partitions
from lakecore.maintain.target import Target
from lakecore.metadata.snapshot import Snapshot
from lakecore.scan.filters import ScanFilter
from lakecore.scan.scanner import Scanner

__all__ = ["Expiry", "LateWritesError"]


class LateWritesError(CommitConflictError):
    """Partitions that were to expire have files that are not old enough: others wrote them meanwhile."""

    def __init__(self, message: str, partitions: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(message)
        self.partitions = tuple(partitions)
        """The internal values of these partitions, by column."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """It is a rule at one time: which partitions of a snapshot are too old."""

    target: Target
    scanner: Scanner
    rule: ExpireRule
    now_ms: int
    """This is the time that the rule compares with."""
    offset_ms: int
    """This is the offset of the writers' wall clock to UTC."""

    def of(self, live: LiveFiles) -> tuple[list[AgedPartition], list[AgedPartition]]:
        """Return what `expired_partitions` says of the live files. It costs a pass over them."""
        return expired_partitions(self._partitions_of(live), self.rule, self.now_ms)

    def _partitions_of(self, live: LiveFiles) -> list[AgedPartition]:
        ages = PartitionAges(self.target, self.rule.strategy)
        for entries in live.groups():
            ages.add(entries)
        return ages.partitions(self.offset_ms)

    def check(
        self, planned_at: Snapshot, base: Snapshot | None, partitions: Sequence[Mapping[str, Any]]
    ) -> None:
        """Raise LateWritesError if partitions that were too old at snapshot `planned_at` are not at `base`,
        which is the newest. By the time in their values they are. It costs a read of their manifests.
        """
        if base is None or base == planned_at or self.rule.strategy is ExpireStrategy.VALUES_TIME:
            return
        aged = self._partitions_of(LiveFiles(self.scanner, base, ScanFilter(partitions=tuple(partitions))))
        end = self.now_ms - self.rule.expiration_ms
        late = [one.values for one in aged if one.updated_ms is None or one.updated_ms >= end]
        if late:
            labels = ", ".join(partition_label(self.target, values) for values in late)
            raise LateWritesError(
                f"{self.target.name}: partitions were written while they were to expire: {labels}", late
            )

    def examine(self, planned_at: Snapshot, partitions: Sequence[Mapping[str, Any]]) -> Examine:
        """Return the check of a commit that drops partitions which were too old at snapshot `planned_at`."""
        return lambda _, base, __: self.check(planned_at, base, partitions)
