"""This module asks a REST server for the newest snapshot of a table."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lakecore.catalog.rest.answers import MissingResourceError
from lakecore.catalog.rest.client import RestClient
from lakecore.errors import UnavailableError
from lakecore.metadata.snapshot import Snapshot

__all__ = ["RestSnapshots"]


@dataclass(frozen=True, slots=True)
class RestSnapshots:
    """This is the server, as a `SnapshotSource` of one table."""

    client: RestClient
    tables: tuple[str, ...]
    """It is the path of the tables of the database."""
    table: str

    def latest(self, branch: str) -> Snapshot | None:
        """Return the newest snapshot, None before the first. It costs a request.

        Raises NotFoundError when the table is gone, UnavailableError, CorruptDataError.
        """
        name = self.table if branch == "main" else f"{self.table}$branch_{branch}"
        what = f"the newest snapshot of {name!r}"
        try:
            answer = self.client.get(what, (*self.tables, name, "snapshot"))
        except MissingResourceError as err:
            if err.kind == "SNAPSHOT":
                return None
            raise
        snapshot = answer.get("snapshot")
        snapshot = snapshot.get("snapshot") if isinstance(snapshot, dict) else None
        if not isinstance(snapshot, dict):
            raise UnavailableError(f"{what}: the answer contains none; see the log of the server")
        return Snapshot.from_json(json.dumps(snapshot), what)
