"""This module keeps what is known of tables that are followed, and finds those that are due in a round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lakecore.data_class import dataclass
from lakecore.errors import LakeError
from lakecore.jobs.runner.lake import Lake
from lakecore.jobs.watching.watch import WatchPosition, watch_position
from lakecore.store.snapshots import SnapshotStore

__all__ = ["DueTables", "TableState", "TableStates"]

_MOST_PAUSE = 64
_LIST_EVERY = 10


@dataclass(frozen=True, slots=True)
class TableState:
    """This is what is known of one table."""

    position: WatchPosition | None = None
    """After this snapshot nothing was left to do."""
    failures: int = 0
    rest_until: int = 0
    """The table is left alone before the round of this number."""

    def after_failure(self, number: int) -> TableState:
        """Return the state of a table that failed in the round `number`: it rests 2, 4, …, at most 64
        rounds.
        """
        failures = self.failures + 1
        return TableState(None, failures, number + min(2**failures, _MOST_PAUSE))

    def has_changed(self, snapshots: SnapshotStore) -> bool:
        """Return whether somebody has committed, or rolled back, since `position`."""
        if self.position is None:
            return snapshots.latest() is not None
        if snapshots.file_io.stat(snapshots.paths.snapshot(self.position.snapshot + 1)) is not None:
            return True
        return watch_position(snapshots.find(self.position.snapshot)) != self.position


@dataclass(frozen=True, slots=True)
class DueTables:
    """These are the tables of a round that have changed, and those that could not be read."""

    names: tuple[str, ...]
    errors: Mapping[str, LakeError]


class TableStates:
    """These are the tables that `names` returns, and what is known of each."""

    def __init__(self, lake: Lake, names: Callable[[], Sequence[str]]) -> None:
        self._lake = lake
        self._names = names
        self._listed: tuple[str, ...] = ()
        self._list_again = 0
        self._states: dict[str, TableState] = {}
        self._stores: dict[str, SnapshotStore] = {}

    @property
    def states(self) -> Mapping[str, TableState]:
        """Return what is known of each table; nothing is known of one that was never compacted."""
        return self._states

    def counts(self, number: int) -> dict[str, int]:
        """Return how many tables are followed, and how many of them rest in the round `number`."""
        resting = sum(number < self.state(name).rest_until for name in self._listed)
        return {"tables": len(self._listed), "restingTables": resting}

    def restore(self, states: Mapping[str, TableState]) -> None:
        """Take over what another process knows. A table that failed there is opened again."""
        self._states = dict(states)
        for name in [name for name, state in states.items() if state.failures]:
            self._stores.pop(name, None)

    def state(self, name: str) -> TableState:
        return self._states.get(name, TableState())

    def remember(self, name: str, state: TableState) -> None:
        """Replace what is known of a table. One that failed is opened again."""
        self._states[name] = state
        if state.failures:
            self._stores.pop(name, None)

    def snapshots(self, name: str) -> SnapshotStore:
        """Return the snapshots of a table, which is opened once. Raises the errors of `load_table`."""
        if name not in self._stores:
            self._stores[name] = self._lake.load_table(name)._stores.snapshots
        return self._stores[name]

    def due(self, number: int, *, pauses: bool = True) -> DueTables:
        """Return the tables to be compacted in the round `number`. A table without a change costs one check
        and one small read. With `pauses` false, tables that failed do not rest.

        The names are listed anew when ten rounds have passed. Raises the errors of `names`.
        """
        self.list_names(number)
        names: list[str] = []
        errors: dict[str, LakeError] = {}
        for name in self._listed:
            state = self.state(name)
            if pauses and number < state.rest_until:
                continue
            try:
                if state.has_changed(self.snapshots(name)):
                    names.append(name)
            except LakeError as err:
                errors[name] = err
        return DueTables(tuple(names), errors)

    def list_names(self, number: int) -> None:
        """List the names if ten rounds have passed since; what is known of other tables is forgotten."""
        if number < self._list_again:
            return
        self._list_again = number + _LIST_EVERY
        self._listed = tuple(dict.fromkeys(self._names()))
        names = set(self._listed)
        self._states = {name: state for name, state in self._states.items() if name in names}
        self._stores = {name: store for name, store in self._stores.items() if name in names}

    def settle(self, name: str, position: WatchPosition | None) -> None:
        """Remember after which snapshot nothing was left to do; with None the table is due in each round."""
        self._states[name] = TableState(position)
