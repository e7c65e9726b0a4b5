"""This module has the full cache: all rows of a table, or of some of its partitions and buckets, as of the
snapshot to which it followed the table.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.lookup.tables.blocks import DamagedBlockError
from lakecore.lookup.tables.cache_state import CacheState
from lakecore.lookup.tables.follower import Follower, LoadNeeded, LookupRead
from lakecore.lookup.tables.run import Layout, Places, Storage
from lakecore.lookup.tables.upserts import ChangeRules, apply_changes, loaded_rows
from lakecore.read.source.readable import Readable

__all__ = ["FullCache"]

_TRIES = 5
_CHANGES_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True)
class _LoadedState:
    """The rows, and the position in the table up to which they go."""

    state: CacheState
    follower: Follower
    snapshot_id: int | None


class FullCache:
    """Several threads may use it: loads and refreshes take turns, and lookups wait for neither."""

    def __init__(
        self, table: Readable, read: LookupRead, layout: Layout, storage: Storage, rules: ChangeRules
    ) -> None:
        self._table = table
        self._read = read
        self._layout, self._storage, self._rules = layout, storage, rules
        self._turn = threading.RLock()
        self._partitions = self._nothing()

    @property
    def snapshot_id(self) -> int | None:
        """Return the snapshot whose rows are held; None before there is one."""
        return self._partitions.snapshot_id

    @property
    def pending(self) -> int:
        """Return the number of snapshots that are still to be applied."""
        return self._partitions.follower.pending

    @property
    def count(self) -> int:
        """Return the number of rows that are held."""
        return self._partitions.state.count

    def use_partitions(self, partitions: tuple[tuple[object, ...], ...] | None) -> None:
        """Let the next load read these partitions only; None: all of them."""
        self._read = replace(self._read, partitions=partitions)

    def load(self) -> None:
        """Load the rows of the latest snapshot. Lookups see the rows held so far until that is done.

        The cost is that of a scan and a sort of hashes, in bounded memory; the new rows are stored beside
        those held so far. Raises UnavailableError for a full disk, NotFoundError when snapshots expired
        faster than their rows were read.
        """
        with self._turn:
            self._hold(self._state_or_raise())

    def _state_or_raise(self) -> _LoadedState:
        for attempt in range(_TRIES):
            follower = Follower(self._table, self._read)
            try:
                snapshot = follower.start()
                batches = iter(()) if snapshot is None else follower.rows(snapshot)
                rows = (loaded_rows(batch, self._rules, self._layout.schema) for batch in batches)
                state = CacheState.loaded(self._layout, self._storage, rows)
            except NotFoundError:
                if attempt == _TRIES - 1:
                    raise
            else:
                return _LoadedState(state, follower, follower.snapshot_id)
        raise AssertionError("the last attempt returns or raises")

    def refresh(self) -> None:
        """Apply the snapshots that follow. Each becomes visible as a whole; after an error those before it
        are.

        The table is loaded again where the position expired, the table was rolled back, an overwrite changed
        rows that are held, or a local block is damaged.
        """
        with self._turn:
            try:
                while self._step():
                    pass
            except (LoadNeeded, NotFoundError, DamagedBlockError):
                self.load()

    def joined(self, keys: pa.Table) -> tuple[Places, pa.Table]:
        """Return the number of the key and the row, for each row that a key matches, ordered by that number.

        A key with a null matches nothing. Where a local block is damaged the table is loaded again.
        """
        keys_of_rows = self._layout.join.encode(keys)
        try:
            numbers, rows = self._partitions.state.joined(keys_of_rows)
        except DamagedBlockError:
            self.load()
            numbers, rows = self._partitions.state.joined(keys_of_rows)
        if keys_of_rows.complete.all() or not len(numbers):
            return numbers, rows
        is_complete = keys_of_rows.complete[numbers]
        return numbers[is_complete], rows.filter(pa.array(is_complete))

    def close(self) -> None:
        """Release the rows and their files."""
        with self._turn:
            self._hold(self._nothing())

    def _nothing(self) -> _LoadedState:
        return _LoadedState(CacheState(self._layout, self._storage), Follower(self._table, self._read), None)

    def _step(self) -> bool:
        loaded = self._partitions
        step = loaded.follower.next()
        if step is None:
            return False
        snapshot, batches = step
        state = loaded.state
        for batch in _gather(batches):
            state = apply_changes(state, batch, self._rules)
        loaded.follower.advance(snapshot)
        self._hold(_LoadedState(state, loaded.follower, snapshot.id))
        return True

    def _hold(self, partitions: _LoadedState) -> None:
        before, self._partitions = self._partitions, partitions
        before.state.close(successor=partitions.state)


def _gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in fewer batches."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _CHANGES_AT_ONCE:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.concat_batches(waiting)
