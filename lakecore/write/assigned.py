"""This module has the state by which assigners and writers of one commit know the buckets of a table.

The process that commits reads it once, so that the cost of a task does not grow with the number of files of
the table. Assigners see each key of a table with dynamic buckets before the writers do, in other processes.
Both know the same snapshot, which the process that commits has chosen; the commit is refused where another
one has assigned keys of the same partitions meanwhile. Where keys may move between partitions, it is refused
after any other commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lakecore.commit.preconditions import has_same_identity
from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.fs.local import LocalFileIO
from lakecore.metadata.options import BucketMode
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.scan.split import Split
from lakecore.write.buckets.bucket_state import BucketState, TableBuckets
from lakecore.write.buckets.cross_partition import CrossPartition, KeyLimits, LiveKeys, OverwrittenPartitions
from lakecore.write.buckets.dynamic_buckets import DynamicBuckets
from lakecore.write.buckets.key_moves import KeyMoves, TaskShare
from lakecore.write.buckets.local_state import LocalState
from lakecore.write.buckets.packed_state import PackedState
from lakecore.write.buckets.placement import asks_for_buckets
from lakecore.write.buckets.state_with_files import BucketStateWithFiles
from lakecore.write.session import WriteSession

__all__ = ["AssignedBy", "StreamBuckets"]

_MOST_FOLLOWED = 50
"""So many manifests of changes are read one after the other; beyond, the whole state is read."""
_FOLLOWED_KINDS = frozenset({CommitKind.APPEND, CommitKind.COMPACT, CommitKind.ANALYZE})


@dataclass(frozen=True, slots=True)
class AssignedBy:
    """Keys are looked up in this snapshot; None: an empty table. It can be pickled."""

    snapshot: Snapshot | None
    replaces: bool = False
    """The partitions of the rows are overwritten, so that their keys do not count."""
    buckets: PackedState | None = None
    """This is the state of the buckets at the snapshot; None: who needs it reads it."""

    @classmethod
    def latest(cls, session: WriteSession) -> AssignedBy:
        """Read the state of the latest snapshot, for all processes that get the value."""
        if not asks_for_buckets(session.stores.schema):
            return cls(session.stores.snapshots.latest())
        state = session.bucket_state()
        return cls(state.snapshot, buckets=PackedState(state))

    def with_buckets(self, session: WriteSession) -> AssignedBy:
        """Read the state of the snapshot, for all processes that get the value. Where no row is placed by it,
        nothing is read. Raises NotFoundError when the snapshot has expired.
        """
        if self.replaces or self.snapshot is None or not asks_for_buckets(session.stores.schema):
            return self
        return replace(self, buckets=PackedState(session.state_at(self.snapshot)))

    def load(self, session: WriteSession) -> TableBuckets:
        """Return the state. Raises NotFoundError when it is read here, and the snapshot expires meanwhile."""
        if self.replaces:
            return BucketState()
        return self.buckets or session.state_at(self.snapshot)

    def load_latest(self, session: WriteSession) -> TableBuckets:
        """Return the state of the latest snapshot, for rows that no other process has assigned.

        It costs a read or two while only compactions came after the snapshot; after another commit, the
        manifests are read.
        """
        if self.buckets is None or _is_outdated(self.snapshot, session):
            return session.bucket_state()
        return self.buckets

    def new_assigner(self, session: WriteSession, shares: int) -> DynamicBuckets:
        """Return what assigns the rows of some of the `shares` of each partition."""
        stores = session.stores
        return DynamicBuckets(stores.schema, stores.indexes, self.load(session), shares=shares)

    def key_splits(self, session: WriteSession) -> Sequence[Split]:
        """Plan the splits of a table whose keys may move between partitions, for tasks that read the keys; no
        split where the keys do not count.
        """
        return () if self.replaces else session.key_splits(self.snapshot)

    def live_keys(self, session: WriteSession, now_ms: int, splits: Iterable[Split]) -> LiveKeys:
        """Return the keys of some of `key_splits`; see `WriteSession.live_keys`."""
        return session.live_keys(self.snapshot, now_ms, splits)

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


class StreamBuckets:
    """It has the state of the buckets of one table for commit after commit, and reads only what snapshots
    changed since the last one. With `local` the next process on this machine continues where this one ended.
    """

    def __init__(self, local: LocalState | None = None) -> None:
        self._local = local
        self._state: BucketStateWithFiles | None = None

    def latest(self, session: WriteSession) -> AssignedBy:
        """Return the state of the latest snapshot, for all processes that get the value.

        It costs the manifests of the changes since the last call, if only appends and compactions came, at
        most 50; all manifests at the first call, and after a rollback, an overwrite or the expiry of the
        snapshot that is known. Where no row is placed by the state, nothing is read.
        """
        if not asks_for_buckets(session.stores.schema):
            return AssignedBy(session.stores.snapshots.latest())
        try:
            state = self._next_state(session) or session.state_with_files()
        except NotFoundError:  # a snapshot has expired meanwhile
            state = None
        if state is None:
            self._state = None
            return AssignedBy.latest(session)
        if self._local is not None and state is not self._state:
            self._local.save(state, session.stores.clock.now_ms())
        self._state = state
        return AssignedBy(state.state.snapshot, buckets=PackedState(state.state))

    def _next_state(self, session: WriteSession) -> BucketStateWithFiles | None:
        base = self._state
        if base is None and self._local is not None:
            base = self._local.load()
        if base is None or base.state.snapshot is None:
            return None
        newer = _newer_snapshots(base.state.snapshot, session)
        if newer is None:
            return None
        return base if not newer and base is self._state else session.state_after(base, newer)


def _newer_snapshots(base: Snapshot, session: WriteSession) -> tuple[Snapshot, ...] | None:
    """Return the snapshots after `base`; None if they cannot be applied to its state, or are too many."""
    store = session.stores.snapshots
    latest = store.latest()
    if latest is None or not 0 <= latest.id - base.id <= _MOST_FOLLOWED:
        return None
    same = latest if latest.id == base.id else store.find(base.id)
    if same is None or not has_same_identity(same, base):
        return None
    newer: list[Snapshot] = []
    for number in range(base.id + 1, latest.id + 1):
        one = latest if number == latest.id else store.find(number)
        if one is None or one.commit_kind not in _FOLLOWED_KINDS:
            return None
        newer.append(one)
    return tuple(newer)


def _is_outdated(base: Snapshot | None, session: WriteSession) -> bool:
    """Return whether the state of the buckets may have changed since `base`. Compactions change no bucket
    count, and take no higher sequence numbers; they may write hash files anew.
    """
    store = session.stores.snapshots
    latest = store.latest()
    if base is None or latest is None or latest.id < base.id:
        return base is not latest
    same = latest if latest.id == base.id else store.find(base.id)
    if same is None or not has_same_identity(same, base):
        return True
    if latest.id > base.id and session.reading.options.bucket_mode is not BucketMode.HASH_FIXED:
        return True
    newer = (
        latest if number == latest.id else store.find(number) for number in range(base.id + 1, latest.id + 1)
    )
    return any(one is None or one.commit_kind is not CommitKind.COMPACT for one in newer)
