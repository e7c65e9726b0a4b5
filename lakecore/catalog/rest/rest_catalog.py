"""The REST catalog: databases and names of tables are on a server, rows in the storage that it names."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast

import pyarrow as pa

from lakecore.catalog.catalog import Database
from lakecore.catalog.catalog_options import check_catalog_options
from lakecore.catalog.change_text import changes_from_json
from lakecore.catalog.config import CatalogConfig
from lakecore.catalog.definition import TableDefinition, first_schema
from lakecore.catalog.names import (
    SYSTEM_DATABASE,
    TableName,
    check_data_table,
    check_name,
    check_not_system,
)
from lakecore.catalog.rest.answers import MissingResourceError
from lakecore.catalog.rest.changes import change_to_json, schema_to_json
from lakecore.catalog.rest.client import RestClient
from lakecore.catalog.rest.options import HEADER_PREFIX, OPTIONS, PREFIX, RestOptions, merged_options
from lakecore.catalog.rest.rest_snapshots import RestSnapshots
from lakecore.catalog.rest.rest_table import located_schema
from lakecore.catalog.warehouse.table_defaults import table_defaults, with_table_defaults
from lakecore.clock import Clock, SystemClock
from lakecore.display import one_line
from lakecore.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError
from lakecore.fs.allowed_paths import BLOB_ROOTS, EXTERNAL_ROOTS, AllowedPaths, declared_roots
from lakecore.fs.confined import confine
from lakecore.fs.file_io import FileIO
from lakecore.fs.memory import MemoryFileIO
from lakecore.fs.read_only import ReadOnlyFileIO
from lakecore.fs.resolve import file_io_for
from lakecore.maintain.dropped.record import DroppedTable
from lakecore.metadata.schema_change import SchemaChange
from lakecore.store.branches import BranchStore
from lakecore.store.paths import TablePaths
from lakecore.store.table_stores import TableStores
from lakecore.system.catalog_tables import CATALOG_TABLES, catalog_table
from lakecore.system.system_table import SystemTable
from lakecore.table import Table

__all__ = ["RestCatalog"]

logger = logging.getLogger(__name__)

_READ_ONLY = (
    "commits belong to the server of a REST catalog, and this release sends none; write with an engine that "
    "does, such as Java Paimon"
)
_NO_FILES = "memory://rest/warehouse"


@dataclass(frozen=True, repr=False)
class RestCatalog:
    """It asks a server with Paimon's REST interface. It can be pickled; the token is pickled with it.

    Tables can be read, and their names and schemas changed. All else that writes is refused: rows, commits,
    maintenance. Every look at a name is a request.
    """

    client: RestClient
    """It sends the requests."""
    name: str
    """It is the warehouse, by the name that the server knows."""
    options: Mapping[str, str] = field(repr=False)
    """These are the merged options, with which storage is opened; they may be secrets."""
    clock: Clock = field(default_factory=SystemClock)
    """It tells times and makes ids."""

    def __repr__(self) -> str:
        """Return warehouse and server on one line, without token and headers; reads nothing."""
        return one_line("RestCatalog", self.name, {"server": self.client.options.uri})

    @classmethod
    def option_keys(cls) -> frozenset[str]:
        """Return the keys of options that only this kind of catalog has, beside `header.*`."""
        return frozenset(key for option in OPTIONS for key in option.keys)

    @classmethod
    def open(cls, config: CatalogConfig, *, create: bool = False) -> RestCatalog:
        """Open a catalog: the server is asked for its options, which are merged as in Java. `create` changes
        nothing, for the server decides what exists.

        Raises InvalidOptionError and UnsupportedError for options that are missing or not obeyed,
        UnavailableError when the server does not answer or refuses the token.
        """
        options = dict(config.options)
        settings = {key: value for key, value in options.items() if not key.startswith(HEADER_PREFIX)}
        check_catalog_options(settings, "rest", cls.option_keys())
        clock = SystemClock()
        client = RestClient(RestOptions.from_options(options), clock)
        query = {"warehouse": config.warehouse} if config.warehouse else None
        answer = client.get(f"open the catalog {config.warehouse}", ("v1", "config"), query)
        merged = merged_options(options, answer)
        headers = {key: value for key, value in merged.items() if key.startswith(HEADER_PREFIX)}
        client.close()
        client = RestClient(RestOptions.from_options({**options, **headers}), clock)
        return cls(client, config.warehouse, merged, clock)

    @property
    def file_io(self) -> FileIO:
        """Return storage without files: a server has no directory for the files of lakecore itself."""
        return ReadOnlyFileIO(MemoryFileIO(), _READ_ONLY)

    @property
    def warehouse(self) -> str:
        """Return an address without files; `name` is the name of the warehouse."""
        return _NO_FILES

    @property
    def allowed_paths(self) -> AllowedPaths:
        """Return the paths that the catalog itself may change: none with files."""
        return self._allowed_paths(_NO_FILES, {})

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def _path(self, *parts: str) -> tuple[str, ...]:
        prefix = PREFIX.read(self.options)
        return ("v1", *((prefix,) if prefix else ()), *parts)

    def _database(self, name: str, *parts: str) -> tuple[str, ...]:
        return self._path("databases", check_name(name, "database"), *parts)

    def _table(self, name: TableName, *parts: str) -> tuple[str, ...]:
        return self._database(name.database, "tables", _object_name(name), *parts)

    def list_databases(self) -> list[str]:
        """List the database names in order. It costs one request a page."""
        return sorted(map(str, self.client.list("list databases", self._path("databases"), "databases")))

    def get_database(self, name: str) -> Database:
        """Return a database with its properties, and its location as the property `location`."""
        if name == SYSTEM_DATABASE:
            return Database(name)
        answer = self.client.get(f"database {name!r}", self._database(name))
        stored = answer.get("options") or {}
        location = answer.get("location")
        own = {} if location is None else {"location": str(location)}
        return Database(name, {**{str(key): str(value) for key, value in stored.items()}, **own})

    def create_database(
        self, name: str, *, if_not_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a database. Raises AlreadyExistsError unless `if_not_exists`, InvalidInputError for
        `sys`.
        """
        check_not_system(name, "created")
        body = {"name": check_name(name, "database"), "options": dict(properties or {})}
        try:
            self.client.post(f"create database {name!r}", self._path("databases"), body)
        except AlreadyExistsError:
            if not if_not_exists:
                raise

    def alter_database(
        self,
        name: str,
        changed: Mapping[str, str] | None = None,
        removed: Sequence[str] = (),
        *,
        if_exists: bool = False,
    ) -> None:
        """Set and remove properties of a database. Raises NotFoundError unless `if_exists`."""
        check_not_system(name, "changed")
        body = {"removals": list(removed), "updates": dict(changed or {})}
        try:
            self.client.post(f"alter database {name!r}", self._database(name), body)
        except MissingResourceError:
            if not if_exists:
                raise

    def drop_database(
        self, name: str, *, if_exists: bool = False, cascade: bool = False, purge: bool = False
    ) -> None:
        """Drop a database. Raises InvalidInputError when it holds tables and `cascade` is not set,
        UnsupportedError when it holds tables and `purge` is not set, because the server keeps no files.
        """
        check_not_system(name, "dropped")
        try:
            tables = self.list_tables(name)
            if tables and not cascade:
                raise InvalidInputError(
                    f"database {name!r} holds {len(tables)} tables, such as {tables[0]!r}; drop them "
                    "first, or use cascade"
                )
            if tables and not purge:
                self._refuse_kept(f"database {name!r}")
            self.client.delete(f"drop database {name!r}", self._database(name))
        except MissingResourceError:
            if not if_exists:
                raise

    def list_tables(self, database: str) -> list[str]:
        """List the tables of one database, in order. It costs one request a page."""
        if database == SYSTEM_DATABASE:
            return sorted(CATALOG_TABLES)
        path = self._database(database, "tables")
        return sorted(map(str, self.client.list(f"list tables of {database!r}", path, "tables")))

    def table_exists(self, name: str) -> bool:
        """Return whether `load_table` would find the table, branch or system table."""
        try:
            self.load_table(name)
        except NotFoundError:
            return False
        return True

    def load_table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
        """Load `db.t`, or `db.t$branch_b`, for reading. `options` hold for this handle only.

        The schema and the newest snapshot are those of the server. Raises NotFoundError, UnavailableError.
        """
        parsed = TableName.parse(name)
        if parsed.database == SYSTEM_DATABASE and parsed.table in CATALOG_TABLES:
            facts = {"warehouse": self.name}
            return cast("Table", catalog_table(parsed.table, self._all_tables, facts))
        table = self._load(replace(parsed, system=None))
        table = table.with_options(options) if options else table
        return table if parsed.system is None else cast("Table", SystemTable(table, parsed.system.lower()))

    def _all_tables(self) -> Iterator[tuple[str, str, Table]]:
        for database in self.list_databases():
            for name in self.list_tables(database):
                yield database, name, self._load(TableName(database, name))

    def _load(self, parsed: TableName) -> Table:
        answer = self.client.get(f"table {str(parsed)!r}", self._table(parsed))
        path, schema = located_schema(str(parsed), answer)
        allowed = self._allowed_paths(path, schema.options)
        storage = confine(ReadOnlyFileIO(file_io_for(path, self.options), _READ_ONLY), allowed)
        paths = TablePaths(path)
        if parsed.branch != paths.branch:
            paths = BranchStore(storage, paths).open(parsed.branch)
        snapshots = RestSnapshots(
            self.client, self._path("databases", parsed.database, "tables"), parsed.table
        )
        return Table(str(parsed), TableStores(schema, storage, paths, self.clock, source=snapshots))

    def _allowed_paths(self, path: str, options: Mapping[str, str]) -> AllowedPaths:
        rules = AllowedPaths(
            warehouse=path,
            own=path,
            declared=declared_roots(EXTERNAL_ROOTS, self.options),
            blob_roots=declared_roots(BLOB_ROOTS, self.options) or (),
        )
        return rules.of_table(path, options)

    def create_table(
        self,
        name: str,
        definition: TableDefinition | pa.Schema | Mapping[str, Any],
        *,
        primary_keys: tuple[str, ...] = (),
        partition_keys: tuple[str, ...] = (),
        options: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Create an empty table. It is checked here first; then the server makes it.

        Raises AlreadyExistsError unless `if_not_exists`, NotFoundError for a missing database,
        InvalidInputError for an invalid definition.
        """
        parsed = check_data_table(name, "created")
        if isinstance(definition, pa.Schema):
            definition = TableDefinition.from_arrow(
                definition, primary_keys=primary_keys, partition_keys=partition_keys, options=options or {}
            )
        elif isinstance(definition, Mapping):
            definition = TableDefinition.from_json(definition)
        defaults = table_defaults(self.options)
        schema = first_schema(with_table_defaults(definition, defaults), self.clock.now_ms())
        body = {"identifier": _identifier(parsed), "schema": schema_to_json(schema)}
        try:
            self.client.post(f"create table {name!r}", self._database(parsed.database, "tables"), body)
        except AlreadyExistsError:
            if not if_not_exists:
                raise
        return self.load_table(name)

    def alter_table(
        self, name: str, changes: Sequence[SchemaChange] | SchemaChange | Sequence[Mapping[str, Any]]
    ) -> Table:
        """Change the schema, with all changes or none; the server decides what is allowed."""
        parsed = TableName.parse(name)
        if parsed.system is not None:
            raise InvalidInputError(
                f"table {name!r}: a system table cannot be changed; name the table itself"
            )
        items = changes if isinstance(changes, Sequence) else (changes,)
        parts = [changes_from_json(one) if isinstance(one, Mapping) else (one,) for one in items]
        body = {"changes": [change_to_json(change) for part in parts for change in part]}
        self.client.post(f"alter table {name!r}", self._table(parsed), body)
        return self.load_table(name)

    def rename_table(self, name: str, new_name: str, *, if_exists: bool = False) -> None:
        """Give a table another name. Raises NotFoundError unless `if_exists`, AlreadyExistsError."""
        old, new = check_data_table(name, "renamed"), check_data_table(new_name, "the name of a table")
        body = {"source": _identifier(old), "destination": _identifier(new)}
        try:
            self.client.post(f"rename table {name!r}", self._path("tables", "rename"), body)
        except MissingResourceError:
            if not if_exists:
                raise

    def drop_table(self, name: str, *, if_exists: bool = False, purge: bool = False) -> DroppedTable | None:
        """Drop a table: the server deletes its files. Raises UnsupportedError unless `purge`, because
        nothing is kept; NotFoundError unless `if_exists`. A hold is not looked for: a server keeps none.
        """
        parsed = check_data_table(name, "dropped")
        if not purge:
            self._refuse_kept(f"table {name!r}")
        try:
            self.client.delete(f"drop table {name!r}", self._table(parsed))
        except MissingResourceError:
            if not if_exists:
                raise
        return None

    def dropped_tables(self, table: str | None = None) -> tuple[DroppedTable, ...]:
        """Return nothing: a server keeps no dropped tables."""
        return ()

    def restore_table(self, name: str, drop_id: str | None = None) -> Table:
        """Raise UnsupportedError: a server keeps no dropped tables."""
        raise UnsupportedError(
            f"table {name!r} cannot be restored: a REST catalog keeps no dropped tables; restore its files "
            "from a backup"
        )

    def _refuse_kept(self, what: str) -> NoReturn:
        raise UnsupportedError(
            f"{what} cannot be dropped so that it can be restored: the server of a REST catalog deletes the "
            "files; drop it with purge if that is what you want"
        )


def _identifier(name: TableName) -> dict[str, str]:
    return {"database": name.database, "object": _object_name(name)}


def _object_name(name: TableName) -> str:
    """Return the name without its database: `t`, or `t$branch_b`."""
    return str(replace(name, system=None)).partition(".")[2]
