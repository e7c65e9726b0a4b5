"""This module finds the snapshots that added new data: what a sensor waits for, and the position of a
table's consumer.

A position is kept in `<warehouse>/.lakecore/positions/`, never in the table's own folder.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError, reason
from lakecore.fs.confined import service_files
from lakecore.fs.file_io import FileIO
from lakecore.maintain.table_key import file_name
from lakecore.metadata.json_record import json_object
from lakecore.metadata.snapshot import RESCALED, CommitKind, Snapshot

__all__ = ["NEW_DATA", "Position", "PositionStore", "SnapshotRange", "only_moves_rows"]

NEW_DATA = frozenset({CommitKind.APPEND, CommitKind.OVERWRITE})
"""Compactions and statistics bring no new data: a DAG that compacts does not wake itself."""


def only_moves_rows(snapshot: Snapshot) -> bool:
    """Return whether a commit records that none of its rows is new, whatever its kind, as lakecore's rescale
    does. An overwrite of another engine may be new data.
    """
    return RESCALED in (snapshot.properties or {})


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """This is a range of snapshots that have new data: ids from `first` to `last`, both included, `count`
    of them.
    """

    first: int
    last: int
    count: int

    def to_json(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """This is the position of a consumer: `run` consumed the snapshots that follow `after`, up to `last`."""

    run: str
    after: int
    last: int


class PositionStore:
    """It stores the positions of consumers of tables, one small JSON file each."""

    def __init__(self, file_io: FileIO, warehouse: str) -> None:
        self._file_io = service_files(file_io, warehouse)
        self._root = f"{warehouse.rstrip('/')}/.lakecore/positions"

    def _path(self, consumer: str, table: str) -> str:
        return f"{self._root}/{file_name(consumer, table, is_folder=False)}.json"

    def load(self, consumer: str, table: str) -> Position | None:
        """Load a position; None when this consumer has not consumed anything of the table yet."""
        path = self._path(consumer, table)
        try:
            raw = json_object(self._file_io.read(path))
            return Position(run=str(raw["run"]), after=int(raw["after"]), last=int(raw["last"]))
        except NotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as err:
            problem = f"this is not a position: {reason(err)}; delete the file to start over"
            raise CorruptDataError(path, problem) from err

    def save(self, consumer: str, table: str, position: Position) -> None:
        self._file_io.overwrite(self._path(consumer, table), json.dumps(asdict(position)).encode())

    def start(self, consumer: str, table: str, run: str) -> int:
        """Return the snapshot above which `run` begins: a repeated run starts where its first try did."""
        position = self.load(consumer, table)
        if position is None:
            return 0
        return position.after if position.run == run else position.last
