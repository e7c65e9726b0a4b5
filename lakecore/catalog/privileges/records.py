"""This module reads and writes the two tables of users and privileges, in the form of Paimon 1.4 and 2.0."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakecore.catalog.definition import TableDefinition, first_schema
from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.fs.allowed_paths import AllowedPaths
from lakecore.fs.confined import confine
from lakecore.fs.file_io import FileIO
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.table_stores import TableStores
from lakecore.table import Table

__all__ = ["PRIVILEGE_TABLE", "USER_TABLE", "Grant", "PrivilegeRecords", "RecordTable"]

USER_TABLE = "user.sys"
PRIVILEGE_TABLE = "privilege.sys"
_USER = "USER"
_DEFINITIONS = {
    USER_TABLE: TableDefinition.from_json(
        {
            "columns": ["user STRING NOT NULL", "sha256 BYTES"],
            "primaryKeys": ["user"],
            "options": {"bucket": "1", "file.format": "avro"},
        }
    ),
    PRIVILEGE_TABLE: TableDefinition.from_json(
        {
            "columns": [
                f"{name} STRING NOT NULL" for name in ("name", "entity_type", "identifier", "privilege")
            ],
            "primaryKeys": ["name", "entity_type", "privilege", "identifier"],
            "options": {"bucket": "1"},
        }
    ),
}


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """This is one privilege of a user on the object with this identifier."""

    user: str
    identifier: str
    privilege: str


@dataclass(frozen=True)
class RecordTable:
    """This is one of the two tables at the root of a warehouse."""

    file_io: FileIO
    warehouse: str
    clock: Clock
    name: str

    @property
    def path(self) -> str:
        """Return the directory of the table."""
        return f"{self.warehouse.rstrip('/')}/{self.name}"

    def exists(self) -> bool:
        """Return whether there is a directory of the table, as Java asks."""
        return self.file_io.stat(self.path) is not None

    @cached_property
    def _storage(self) -> FileIO:
        return confine(self.file_io, AllowedPaths(warehouse=self.warehouse, own=self.path))

    def open(self) -> Table:
        """Open the table. Raises CorruptDataError for a directory without a schema."""
        paths = TablePaths(self.path)
        schema = SchemaStore(self._storage, paths, self.clock).latest()
        if schema is None:
            raise CorruptDataError(self.path, "has no schema, so no user can be authenticated")
        return Table(self.name, TableStores(schema, self._storage, paths, self.clock))

    def create(self) -> bool:
        """Create the table. False if it exists."""
        schema = first_schema(_DEFINITIONS[self.name], self.clock.now_ms())
        return SchemaStore(self._storage, TablePaths(self.path), self.clock).publish(schema)

    def version(self) -> int | None:
        """Return the id of the latest snapshot."""
        return self.open()._stores.snapshots.latest_id()

    def rows(self) -> list[dict[str, Any]]:
        """Read all rows."""
        raw_rows: list[dict[str, Any]] = self.open().scan().to_arrow().to_pylist()
        return raw_rows

    def write(self, rows: Sequence[Mapping[str, object]], removed: Sequence[Mapping[str, object]]) -> None:
        """Commit rows and the removal of others as one snapshot."""
        changes = [{"_kind": "+I", **row} for row in rows] + [{"_kind": "-D", **row} for row in removed]
        columns: dict[str, list[object]] = {name: [one[name] for one in changes] for name in changes[0]}
        self.open().upsert(pa.table(columns))


@dataclass(frozen=True)
class PrivilegeRecords:
    """These are the users and privileges of a warehouse. Each change is one snapshot of one table."""

    users: RecordTable
    privileges: RecordTable

    @classmethod
    def of(cls, file_io: FileIO, warehouse: str, clock: Clock) -> PrivilegeRecords:
        """Return those of a warehouse, which need not exist."""
        users, privileges = (
            RecordTable(file_io, warehouse, clock, name) for name in (USER_TABLE, PRIVILEGE_TABLE)
        )
        return cls(users, privileges)

    def state(self) -> tuple[bool, bool]:
        """Return which of the two tables exist. Privileges are obeyed once both do."""
        return self.users.exists(), self.privileges.exists()

    def version(self) -> tuple[int | None, int | None]:
        """Return what changes with every change of users or privileges."""
        return self.users.version(), self.privileges.version()

    def passwords(self) -> dict[str, bytes]:
        """Read the hashes of all passwords by user."""
        return {str(row["user"]): bytes(row["sha256"] or b"") for row in self.users.rows()}

    def grants(self) -> tuple[Grant, ...]:
        """Read all privileges of users, in order."""
        rows = (row for row in self.privileges.rows() if row["entity_type"] == _USER)
        records = (Grant(str(row["name"]), str(row["identifier"]), str(row["privilege"])) for row in rows)
        return tuple(sorted(records))

    def grants_by_user(self) -> Mapping[str, Mapping[str, frozenset[str]]]:
        """Read the privileges by user and identifier."""
        by_user: dict[str, dict[str, frozenset[str]]] = defaultdict(dict)
        for one in self.grants():
            of_user = by_user[one.user]
            of_user[one.identifier] = of_user.get(one.identifier, frozenset()) | {one.privilege}
        return by_user

    def set_passwords(self, hashes: Mapping[str, bytes]) -> None:
        """Store the hashes of passwords of users."""
        self.users.write([{"user": user, "sha256": value} for user, value in hashes.items()], ())

    def remove_user(self, user: str) -> None:
        """Remove a user. Its privileges go apart."""
        self.users.write((), [{"user": user, "sha256": b""}])

    def change(self, added: Iterable[Grant], removed: Iterable[Grant]) -> None:
        """Add and remove privileges; without any it does nothing."""
        rows, others = [_row(one) for one in added], [_row(one) for one in removed]
        if rows or others:
            self.privileges.write(rows, others)


def _row(one: Grant) -> dict[str, object]:
    return {
        "name": one.user,
        "entity_type": _USER,
        "identifier": one.identifier,
        "privilege": one.privilege,
    }
