"""This module has the history that a stream can still read: the changelogs that outlive their snapshots,
then the snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.data_class import dataclass
from lakecore.metadata.snapshot import Snapshot
from lakecore.options import Option, parse_duration_ms
from lakecore.store.changelogs import ChangelogStore
from lakecore.store.snapshots import SnapshotStore

__all__ = ["History", "changelogs_live_longer"]

_HOUR = 3_600_000
_ALL = (1 << 31) - 1

SNAPSHOTS_MIN = Option("snapshot.num-retained.min", int, 10, "Snapshots to keep at least.")
SNAPSHOTS_MAX = Option("snapshot.num-retained.max", int, _ALL, "Snapshots to keep at most.")
SNAPSHOTS_TIME = Option("snapshot.time-retained", parse_duration_ms, _HOUR, "Age of kept snapshots (ms).")
CHANGELOGS_MIN: Option[int | None] = Option("changelog.num-retained.min", int, None, "As for snapshots.")
CHANGELOGS_MAX: Option[int | None] = Option("changelog.num-retained.max", int, None, "As for snapshots.")
CHANGELOGS_TIME: Option[int | None] = Option(
    "changelog.time-retained", parse_duration_ms, None, "As for snapshots."
)


def changelogs_live_longer(raw: Mapping[str, str]) -> bool:
    """Return whether the options keep more, or older, changelogs than snapshots, so that streams must look
    for them.
    """
    pairs = (
        (CHANGELOGS_MIN, SNAPSHOTS_MIN),
        (CHANGELOGS_MAX, SNAPSHOTS_MAX),
        (CHANGELOGS_TIME, SNAPSHOTS_TIME),
    )
    return any(
        (lifetime := changelogs.read(raw)) is not None and lifetime > snapshots.read(raw)
        for changelogs, snapshots in pairs
    )


@dataclass(frozen=True)
class History:
    """These are the snapshots and changelogs of one branch. `with_changelogs` says whether changelogs
    count (see `changelogs_live_longer`).
    """

    snapshots: SnapshotStore
    changelogs: ChangelogStore
    with_changelogs: bool

    def find(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot, else the changelog that is left of it; None if both are gone or do not
        exist yet.

        It looks twice, because expiry turns the one into the other.
        """
        for _ in range(2 if self.with_changelogs else 1):
            snapshot = self.snapshots.find(snapshot_id)
            if snapshot is None and self.with_changelogs:
                snapshot = self.changelogs.find(snapshot_id)
            if snapshot is not None:
                return snapshot
        return None

    def earliest_id(self) -> int | None:
        """Return the first id that is left. It costs a listing if changelogs count."""
        ids = self.changelogs.list_ids() if self.with_changelogs else ()
        if ids:
            return ids[0]
        earliest = self.snapshots.earliest()
        return None if earliest is None else earliest.id

    def before(self, timestamp_ms: int) -> int | None:
        """Return the id of the last one committed before a time, or the id before the first if all are
        later.

        It returns None if there is none at all. Times are assumed to grow with ids, as the format does.
        """
        low, high = self.earliest_id(), self.snapshots.latest_id()
        if low is None or high is None:
            return None
        low -= 1
        while low < high:
            middle = (low + high + 1) // 2
            snapshot = self.find(middle)
            if snapshot is None or snapshot.time_millis < timestamp_ms:  # None: expired meanwhile
                low = middle
            else:
                high = middle - 1
        return low
