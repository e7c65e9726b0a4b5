"""Which snapshots brought new data: what a sensor waits for, and where a consumer of a table stands.

A position is kept in `<warehouse>/.lakecore/positions/`, never in the table's own folder.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from lakecore.errors import CorruptDataError, NotFoundError, reason
from lakecore.fs.file_io import FileIO
from lakecore.metadata.snapshot import CommitKind, Snapshot

__all__ = ["Position", "PositionStore", "SnapshotRange", "after", "within"]

_NEW_DATA = frozenset({CommitKind.APPEND, CommitKind.OVERWRITE})


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """Snapshots with new data: ids from `first` to `last`, both included, `count` of them."""

    first: int
    last: int
    count: int

    def to_json(self) -> dict[str, int]:
        return asdict(self)


def _range(ids: Iterable[int]) -> SnapshotRange | None:
    found = sorted(ids)
    return SnapshotRange(found[0], found[-1], len(found)) if found else None


def _existing(load: Callable[[int], Snapshot], ids: Iterable[int]) -> Iterable[Snapshot]:
    """Snapshots may be expired while they are walked: a missing one is passed over."""
    for snapshot_id in ids:
        try:
            yield load(snapshot_id)
        except NotFoundError:
            continue


def after(load: Callable[[int], Snapshot], ids: Iterable[int], position: int) -> SnapshotRange | None:
    """New data above snapshot `position`; None when there is none.

    Compactions and statistics bring no new data and are passed over: a DAG that compacts does not wake
    itself. Reads one snapshot file per id above `position`.
    """
    newer = (snapshot_id for snapshot_id in ids if snapshot_id > position)
    return _range(s.id for s in _existing(load, newer) if s.commit_kind in _NEW_DATA)


def within(
    load: Callable[[int], Snapshot], ids: Iterable[int], start_ms: int, end_ms: int
) -> SnapshotRange | None:
    """New data committed in [start_ms, end_ms). Reads snapshot files from the newest back to that start."""
    found = []
    for snapshot in _existing(load, sorted(ids, reverse=True)):
        if snapshot.time_millis < start_ms:
            break
        if snapshot.time_millis < end_ms and snapshot.commit_kind in _NEW_DATA:
            found.append(snapshot.id)
    return _range(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a consumer came: `run` consumed the snapshots above `after`, up to `last`."""

    run: str
    after: int
    last: int


class PositionStore:
    """Positions of consumers of tables, one small JSON file each."""

    def __init__(self, file_io: FileIO, warehouse: str) -> None:
        self._file_io = file_io
        self._root = f"{warehouse.rstrip('/')}/.lakecore/positions"

    def _path(self, consumer: str, table: str) -> str:
        parts = (urllib.parse.quote(part, safe="") for part in (consumer, table))
        return f"{self._root}/{'@'.join(parts)}.json"

    def load(self, consumer: str, table: str) -> Position | None:
        """None when this consumer has not consumed anything of the table yet."""
        path = self._path(consumer, table)
        try:
            raw = json.loads(self._file_io.read(path))
            return Position(run=str(raw["run"]), after=int(raw["after"]), last=int(raw["last"]))
        except NotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as err:
            problem = f"not a position: {reason(err)}; delete the file to start over"
            raise CorruptDataError(path, problem) from err

    def save(self, consumer: str, table: str, position: Position) -> None:
        self._file_io.overwrite(self._path(consumer, table), json.dumps(asdict(position)).encode())

    def start(self, consumer: str, table: str, run: str) -> int:
        """The snapshot above which `run` begins: a repeated run starts where its first try did."""
        position = self.load(consumer, table)
        if position is None:
            return 0
        return position.after if position.run == run else position.last
