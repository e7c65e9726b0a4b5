"""This module has the state by which assigners and writers of one commit know the buckets of keys.

Assigners see each key of a table with dynamic buckets before the writers do, in other processes. Both read
the same snapshot, which the process that commits has chosen; the commit is refused where another one has
assigned keys of the same partitions meanwhile. Where keys may move between partitions, it is refused after
any other commit.
"""

from __future__ import annotations

from lakecore.data_class import dataclass
from lakecore.fs.local import LocalFileIO
from lakecore.metadata.snapshot import Snapshot
from lakecore.write.buckets.bucket_state import BucketState
from lakecore.write.buckets.cross_partition import CrossPartition, KeyLimits, LiveKeys, OverwrittenPartitions
from lakecore.write.buckets.dynamic_buckets import DynamicBuckets
from lakecore.write.buckets.key_moves import KeyMoves, TaskShare
from lakecore.write.session import WriteSession

__all__ = ["AssignedBy"]


@dataclass(frozen=True, slots=True)
class AssignedBy:
    """Keys are looked up in this snapshot; None: an empty table. It can be pickled."""

    snapshot: Snapshot | None
    replaces: bool = False
    """The partitions of the rows are overwritten, so that their keys do not count."""

    def load(self, session: WriteSession) -> BucketState:
        """Read the state. Raises NotFoundError when the snapshot expires meanwhile."""
        return BucketState() if self.replaces else session.state_at(self.snapshot)

    def new_assigner(self, session: WriteSession, shares: int) -> DynamicBuckets:
        """Return what assigns the rows of some of the `shares` of each partition."""
        stores = session.stores
        return DynamicBuckets(stores.schema, stores.indexes, self.load(session), shares=shares)

    def live_keys(self, session: WriteSession, now_ms: int, part: tuple[int, int]) -> LiveKeys:
        """Return the keys of one part of the splits of a table whose keys may move between partitions; see
        `WriteSession.live_keys`.
        """
        return session.live_keys(None if self.replaces else self.snapshot, now_ms, part)

    def new_key_assigner(
        self, session: WriteSession, share: TaskShare, live_keys: LiveKeys
    ) -> CrossPartition:
        """Return what assigns the rows of some keys, `live_keys`, that may move between partitions."""
        stores = session.stores
        return CrossPartition(
            KeyMoves(stores.paths.table_path, stores.schema, share),
            live_keys,
            LocalFileIO(sync=False),
            OverwrittenPartitions(),
            KeyLimits(),
        )
