"""This module keeps what a streaming query is about to commit, one small file a query, so that the commit is
recognised however long ago it was made.

The last snapshot of a query shows which micro-batches it has committed. Where all of them have expired when
the query is restarted, the files that it was about to commit decide: a table that has one of them has the
commit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.maintain.service_store import ServiceStore
from lakecore.maintain.table_key import file_name

__all__ = ["StreamIntent", "StreamIntents"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class StreamIntent:
    """It is the last commit that a query was about to make."""

    number: int
    """It is the number of the micro-batch."""
    prepared: tuple[bytes, ...]
    """These are the bytes that its writers prepared."""
    schema_id: int = 0
    """It is the id of the schema with which the query was about to commit."""
    schema_time_ms: int = 0
    """It is the time of that schema, ms since 1970, which tells the table from one of the same name that is
    created later; 0 if it is not known: releases before 2026-11-30 did not store it.
    """


@dataclass(frozen=True)
class StreamIntents(ServiceStore):
    """It stores the intents of the queries that write to tables of a warehouse."""

    directory: ClassVar[str] = "streams"

    def find(self, table: str, user: str) -> StreamIntent | None:
        """Return the intent of a query, None without one. It costs a read. Raises CorruptDataError."""
        path = self._path(table, user)
        try:
            raw = json.loads(self.file_io.read(path))
            if raw["version"] != _VERSION:
                raise ValueError(f"its version is {raw['version']!r}, and this release knows {_VERSION}")
            prepared = tuple(one.encode() for one in raw["prepared"])
            schema = int(raw.get("schemaId", 0)), int(raw.get("schemaTime", 0))
            return StreamIntent(int(raw["number"]), prepared, *schema)
        except NotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            raise CorruptDataError(
                path, f"this is not the intent of a stream: {err}; delete it if the query is not restarted"
            ) from err

    def save(self, table: str, user: str, intent: StreamIntent) -> None:
        """Store the intent in place of the one before. It costs a write."""
        raw = {
            "version": _VERSION,
            "number": intent.number,
            "prepared": [one.decode() for one in intent.prepared],
            "schemaId": intent.schema_id,
            "schemaTime": intent.schema_time_ms,
        }
        self.file_io.overwrite(self._path(table, user), json.dumps(raw).encode())

    def remove(self, table: str, user: str, prepared: Sequence[bytes]) -> None:
        """Remove the intent of these writers, before their files are removed. That of another process, which
        runs the same query, stays.
        """
        intent = self.find(table, user)
        if intent is not None and intent.prepared == tuple(prepared):
            self.file_io.delete(self._path(table, user))

    def _path(self, table: str, user: str) -> str:
        return f"{self.root}/{file_name(user, table, is_folder=False)}.json"
