"""This module keeps what a streaming query knows of the tables that it follows, in
`<warehouse>/.lakecore/followers`, one file a query.

Without the file all tables are looked at again, so it may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError, reason
from lakecore.jobs.compact.table_states import TableState
from lakecore.jobs.watching.watch import WatchPosition
from lakecore.maintain.service_store import ServiceStore
from lakecore.metadata.json_record import json_object

__all__ = ["FollowStore"]

_VERSION = 1


@dataclass(frozen=True)
class FollowStore(ServiceStore):
    """It stores what queries know. A file has some 60 bytes for each table."""

    directory: ClassVar[str] = "followers"

    def load(self, query: str, job: str) -> dict[str, TableState]:
        """Return what the query `query` knew of each table when it ran the job `job`, nothing if it ran
        another one. It costs a read. Raises CorruptDataError.
        """
        path = self._path(query)
        try:
            raw = json_object(self.file_io.read(path))
            if raw["version"] != _VERSION:
                raise ValueError(f"its version is {raw['version']!r}, and this release knows {_VERSION}")
            if raw["job"] != _digest(job):
                return {}
            return {str(name): _state(state) for name, state in raw["tables"].items()}
        except NotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            problem = f"this is not the state of a compactor: {reason(err)}; delete it"
            raise CorruptDataError(path, problem) from err

    def save(self, query: str, job: str, states: Mapping[str, TableState]) -> None:
        """Store what the query knows, in place of what it knew before. It costs a write."""
        tables = {name: _raw(state) for name, state in states.items()}
        raw = {"version": _VERSION, "job": _digest(job), "tables": tables}
        self.file_io.overwrite(self._path(query), json.dumps(raw).encode())

    def _path(self, query: str) -> str:
        return f"{self.root}/{_digest(query)}.json"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _raw(state: TableState) -> dict[str, Any]:
    position = state.position
    return {
        "position": None if position is None else position.to_json(),
        "failures": state.failures,
        "rest_until": state.rest_until,
    }


def _state(raw: Mapping[str, Any]) -> TableState:
    position = raw["position"]
    return TableState(
        None if position is None else WatchPosition.from_json(position),
        int(raw["failures"]),
        int(raw["rest_until"]),
    )
