"""This module finds the data that arrived in a table since a snapshot, and whether it satisfies a
condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import field
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.jobs.runner.moment import parse_moment
from lakecore.jobs.watching.new_snapshots import NEW_DATA, SnapshotRange, only_moves_rows
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.row.partition_path import parse_partitions
from lakecore.scan.filters import ScanFilter, keeps_manifest, select_entries
from lakecore.table import Table

__all__ = ["ArrivalCondition", "Arrivals", "added_entries"]

Memo = MutableMapping[tuple[int, str], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalCondition:
    """The condition that a watcher waits for; all parts of it must hold."""

    count: int = 1
    """The number of snapshots; with a watermark it may be 0."""
    rows: int = 0
    """This is the number of rows that they must add."""
    kinds: frozenset[CommitKind] = NEW_DATA
    """These are the commit kinds that count."""
    partitions: str | None = None
    """These are the partitions, as `dt=a,hh=b;dt=c`, of which a commit must add files to one to count."""
    watermark: int | None = None
    """The watermark of the table's newest snapshot must reach this event time, in milliseconds."""

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> ArrivalCondition:
        """Parse a condition from texts as users write them; missing or empty ones take the default. Raises
        InvalidInputError.
        """
        values = {key: value for key, value in raw.items() if str(value).strip() not in ("", "None")}
        watermark = values.get("watermark")
        return cls(
            count=_number(values, "count", 1 if watermark is None else 0),
            rows=_number(values, "rows", 0),
            kinds=_kinds(values["kinds"]) if values.get("kinds") else NEW_DATA,
            partitions=str(values["partitions"]) if "partitions" in values else None,
            watermark=_moment(watermark),
        )


def _number(parameters: Mapping[str, Any], name: str, default: int) -> int:
    try:
        value = int(parameters.get(name, default))
    except ValueError as err:
        raise InvalidInputError(f"{name}={parameters[name]!r}: use a whole number") from err
    if value < 0:
        raise InvalidInputError(f"{name}={value}: use a number that is not negative")
    return value


def _moment(value: Any) -> int | None:
    """Return a moment in milliseconds; a number is milliseconds already."""
    return value if value is None or isinstance(value, int) else parse_moment(str(value), "watermark")


def _kinds(kinds: Sequence[str] | str) -> frozenset[CommitKind]:
    names = kinds.split(",") if isinstance(kinds, str) else kinds
    try:
        return frozenset(CommitKind(str(name).strip().upper()) for name in names)
    except ValueError as err:
        every_kind = ", ".join(kind.value.lower() for kind in CommitKind)
        raise InvalidInputError(f"kinds={kinds!r}: use some of {every_kind}") from err


@dataclass(frozen=True)
class Arrivals:
    """It checks one table. `memo` saves a second check from reading the same manifests again.

    A check reads a snapshot file per id above the position; with `partitions` (or `rows`, for commits that
    overwrite) it also reads the manifests of what each commit added.
    """

    table: Table
    condition: ArrivalCondition
    memo: Memo = field(default_factory=dict)

    def after(self, position: int) -> SnapshotRange | None:
        """Return what arrived above snapshot `position`, when it satisfies the condition; else None."""
        ids = (one for one in self.table._stores.snapshots.list_ids() if one > position)
        return self._enough(self.existing(ids))

    def within(self, start_ms: int, end_ms: int) -> SnapshotRange | None:
        """Return what was committed in [start_ms, end_ms). This reads snapshot files from the newest back to
        there.
        """
        snapshots = []
        for snapshot in self.existing(sorted(self.table._stores.snapshots.list_ids(), reverse=True)):
            if snapshot.time_millis < start_ms:
                break
            if snapshot.time_millis < end_ms:
                snapshots.append(snapshot)
        return self._enough(reversed(snapshots))

    def existing(self, ids: Iterable[int]) -> Iterable[Snapshot]:
        """Yield the snapshots that exist. Snapshots may expire meanwhile: a missing one is skipped."""
        for snapshot_id in ids:
            try:
                yield self.table._stores.snapshots.load(snapshot_id)
            except NotFoundError:
                continue

    def _enough(self, snapshots: Iterable[Snapshot]) -> SnapshotRange | None:
        condition = self.condition
        count, rows = self.gather(snapshots)
        ids = [snapshot.id for snapshot in count]
        if len(ids) < condition.count or rows < condition.rows:
            return None
        if condition.watermark is None:
            return SnapshotRange(ids[0], ids[-1], len(ids)) if ids else None
        latest = self.table._stores.snapshots.latest()
        if latest is None or latest.watermark is None or latest.watermark < condition.watermark:
            return None
        return SnapshotRange(*((ids[0], ids[-1]) if ids else (latest.id, latest.id)), len(ids))

    def gather(self, snapshots: Iterable[Snapshot]) -> tuple[list[Snapshot], int]:
        """Return the snapshots that count, and the rows they added where the condition asks for rows."""
        count, rows = [], 0
        for snapshot in snapshots:
            counts = snapshot.commit_kind in self.condition.kinds and not only_moves_rows(snapshot)
            added = self._added_rows(snapshot) if counts else None
            if added is not None:
                count.append(snapshot)
                rows += added
        return count, rows

    def _added_rows(self, snapshot: Snapshot) -> int | None:
        """Return the rows that the commit added, where the condition asks for rows; None when the commit does
        not count.
        """
        condition = self.condition
        if condition.partitions is None and not condition.rows:
            return 0
        counted = snapshot.delta_record_count
        if condition.partitions is None and snapshot.commit_kind is CommitKind.APPEND and counted is not None:
            return max(counted, 0)
        key = snapshot.id, snapshot.delta_manifest_list
        if key not in self.memo:
            try:
                entries = added_entries(self.table, snapshot, condition.partitions)
            except NotFoundError:
                return None  # expired since its snapshot was read
            rows = int(entries.row_count.sum()) if len(entries) else None
            self.memo[key] = rows if rows is not None or condition.partitions is not None else 0
        return self.memo[key]


def added_entries(table: Table, snapshot: Snapshot, partitions: str | None = None) -> Any:
    """Return the files that a commit added, in all partitions or some. This reads its delta manifests; it
    raises NotFoundError when they have expired.
    """
    partition_type = table.schema.partition_type
    default = table.options.partition_default_name
    where = ScanFilter(
        partitions=parse_partitions(partitions, partition_type, default) if partitions else None
    )
    listed = table._stores.manifests.read_list(snapshot.delta_manifest_list)
    entries = table._stores.manifests.read(
        [file for file in listed if keeps_manifest(file, where, partition_type)]
    )
    chosen = select_entries(entries, where, partition_type)
    return chosen.select(chosen.kind == int(EntryKind.ADD))
