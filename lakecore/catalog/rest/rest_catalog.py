"""The REST catalog: databases and names of tables are on a server, rows in the storage that it names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from typing import Any, NoReturn, cast

import pyarrow as pa

from lakecore.catalog.catalog import Database
from lakecore.catalog.catalog_options import check_catalog_options
from lakecore.catalog.change_text import changes_of
from lakecore.catalog.config import CatalogConfig
from lakecore.catalog.definition import TableDefinition, first_schema
from lakecore.catalog.names import (
    PAIMON_KIND,
    SYSTEM_DATABASE,
    TableName,
    check_data_table,
    check_name,
    check_not_system,
    check_properties,
)
from lakecore.catalog.objects.external_tables import (
    PATH,
    check_directory,
    external_path,
    new_external_schema,
    publish_external,
)
from lakecore.catalog.objects.new_file_tables import file_table_schema
from lakecore.catalog.objects.table_filter import TableFilter
from lakecore.catalog.objects.table_page import NamePage, TablePage, check_limit, page_of
from lakecore.catalog.remote.settled import settled
from lakecore.catalog.rest.answers import MissingResourceError, names_of, object_of
from lakecore.catalog.rest.changes import change_to_json, schema_to_json
from lakecore.catalog.rest.client import RestClient
from lakecore.catalog.rest.name_pages import PageRequest, page_of_server
from lakecore.catalog.rest.options import HEADER_PREFIX, OPTIONS, PREFIX, RestOptions, merged_options
from lakecore.catalog.rest.resource_paths import ResourcePaths, object_name
from lakecore.catalog.rest.rest_partitions import RestPartitions
from lakecore.catalog.rest.rest_storage import RestStorage
from lakecore.catalog.rest.rest_table import load_rest_table
from lakecore.catalog.rest.rest_views import RestFunctions, RestViews
from lakecore.catalog.warehouse.removal import TableRemoval
from lakecore.catalog.warehouse.table_defaults import table_defaults, with_table_defaults
from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.display import one_line
from lakecore.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError
from lakecore.fs.allowed_paths import AllowedPaths
from lakecore.fs.file_io import FileIO
from lakecore.maintain.dropped.record import DroppedTable
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.schema_change import SchemaChange
from lakecore.store.cache.manifest_cache import ManifestCache, open_cache
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.system.catalog_tables import CATALOG_TABLES, REMOVED_TABLES, catalog_table
from lakecore.system.system_table import SystemTable
from lakecore.table import Table

__all__ = ["RestCatalog"]

_CREATION_WAITS = (0.05, 0.2, 0.8)
"""Seconds between the tries to create a table that may exist."""


logger = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class RestCatalog:
    """It asks a server with Paimon's REST interface. It can be pickled; the token is pickled with it.

    The server commits snapshots, rolls back and changes branches; files are written by lakecore. Every look
    at a name is a request, and a change whose answer is lost is looked for.
    """

    client: RestClient
    """It sends the requests."""
    name: str
    """It is the warehouse, by the name that the server knows."""
    options: Mapping[str, str] = field(repr=False)
    """These are the merged options, with which storage is opened; they may be secrets."""
    clock: Clock = field(default_factory=SystemClock)
    """It tells times and makes ids."""
    manifest_cache: ManifestCache | None = field(default=None, repr=False, compare=False)
    """Plans of reads of its tables keep decoded manifests there; None without `cache-enabled=true`."""

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
        nothing, for the server decides what exists. Raises InvalidOptionError and UnsupportedError for
        options that are missing or not obeyed, NotFoundError for a warehouse that the server does not know,
        UnavailableError when the server does not answer or refuses the token.
        """
        options = dict(config.options)
        settings = {key: value for key, value in options.items() if not key.startswith(HEADER_PREFIX)}
        check_catalog_options(settings, "rest", cls.option_keys())
        clock = SystemClock()
        cache = open_cache(options, clock)
        if cache is not None and cache.limits.allows_stale:
            raise UnsupportedError(
                "catalog options cache.snapshot.max-num-per-table and cache.partition.max-num: with "
                "metastore=rest the server says at each load who may read a table, where it lies and which "
                "snapshot is the newest, so nothing of that is kept; set both to 0, or leave them out"
            )
        client = RestClient(RestOptions.from_options(options, clock), clock)
        query = {"warehouse": config.warehouse} if config.warehouse else None
        try:
            what = f"open the catalog {config.warehouse} at {client.options.uri}"
            answer = client.get(what, ("v1", "config"), query)
        except NotFoundError as err:
            raise NotFoundError(
                f"{err}; check the warehouse, which is a name on the server, and uri"
            ) from err
        merged = merged_options(options, answer)
        headers = {key: value for key, value in merged.items() if key.startswith(HEADER_PREFIX)}
        client.close()
        client = RestClient(RestOptions.from_options({**options, **headers}, clock), clock)
        return cls(client, config.warehouse, merged, clock, cache)

    @property
    def file_io(self) -> FileIO:
        """Return the storage of lakecore's own files, which refuses all changes where the option
        `lakecore.service-location` is not given.
        """
        return self._storage.service

    @property
    def warehouse(self) -> str:
        """Return the directory below which lakecore has its own files; tables lie where the server says."""
        return self._storage.service_root

    @property
    def allowed_paths(self) -> AllowedPaths:
        """Return the paths that the catalog itself may change: none with tables."""
        return self._storage.allowed(self.warehouse, {})

    @cached_property
    def _storage(self) -> RestStorage:
        return RestStorage(self.client, self.options, self.manifest_cache)

    @cached_property
    def _paths(self) -> ResourcePaths:
        return ResourcePaths(PREFIX.read(self.options) or "")

    @property
    def views(self) -> RestViews:
        """Return the views of the server."""
        return RestViews.of(self.client, self._paths)

    @property
    def functions(self) -> RestFunctions:
        """Return the functions of the server."""
        return RestFunctions.of(self.client, self._paths)

    @property
    def partitions(self) -> RestPartitions:
        """Return the partitions of tables, which the server keeps for some of them."""
        removal = TableRemoval(self.file_io, self.warehouse, self.clock)
        check = partial(removal.check_no_hold, chore="drop-partition")
        return RestPartitions(self.client, self._paths, self.load_table, check)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def list_databases(self) -> list[str]:
        """List the database names in order. It costs one request a page."""
        what = "list databases"
        return sorted(names_of(what, self.client.list(what, self._paths.of("databases"), "databases")))

    def list_databases_page(
        self, *, limit: int, token: str | None = None, pattern: str | None = None
    ) -> NamePage:
        """List one page of the databases as the server chooses and orders them. It is one request. Raises
        InvalidInputError for a `limit` below 1.
        """
        request = PageRequest(limit, token, "databaseNamePattern", pattern)
        path = self._paths.of("databases")
        return page_of_server(self.client, "list databases", path, "databases", request)

    def get_database(self, name: str) -> Database:
        """Return a database with its properties, and its location as the property `location`."""
        if name == SYSTEM_DATABASE:
            return Database(name)
        what = f"database {name!r}"
        answer = self.client.get(what, self._paths.database(name))
        stored = object_of(what, answer, "options")
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
        check_properties(properties, ())
        body = {"name": check_name(name, "database"), "options": dict(properties or {})}
        send = partial(self.client.post, f"create database {name!r}", self._paths.of("databases"), body)
        try:
            self._settle(send, lambda: self._has_database(name))
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
        check_properties(changed, removed)
        body = {"removals": list(removed), "updates": dict(changed or {})}
        send = partial(self.client.post, f"alter database {name!r}", self._paths.database(name), body)
        try:
            self._settle(send, lambda: self._has_properties(name, changed or {}, removed))
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
            send = partial(self.client.delete, f"drop database {name!r}", self._paths.database(name))
            self._settle(send, lambda: not self._has_database(name))
        except MissingResourceError:
            if not if_exists:
                raise

    def list_tables(
        self, database: str, *, pattern: str | None = None, table_type: str | None = None
    ) -> list[str]:
        """List the tables of one database, in order: those whose names are like `pattern` (`ods_%`: only the
        end may be `%`), and whose option `type` is `table_type`. It costs one request a page; the server
        chooses.

        Raises NotFoundError, and InvalidInputError for a filter that is invalid.
        """
        names = TableFilter.of(pattern, table_type)
        if database == SYSTEM_DATABASE:
            listed = list(CATALOG_TABLES) if names.table_type in (None, "table") else []
        else:
            filters = {"tableNamePattern": names.pattern, "tableType": names.table_type}
            query = {key: value for key, value in filters.items() if value is not None}
            path, what = self._paths.database(database, "tables"), f"list tables of {database!r}"
            listed = names_of(what, self.client.list(what, path, "tables", query))
        return sorted(filter(names.has_name, listed))

    def list_tables_page(
        self,
        database: str,
        *,
        limit: int,
        token: str | None = None,
        pattern: str | None = None,
        table_type: str | None = None,
    ) -> TablePage:
        """List one page of the tables as the server chooses and orders them; `limit` and `token` are passed
        on. It is one request. Raises as `list_tables`, and InvalidInputError for a `limit` below 1.
        """
        check_limit(limit)
        names = TableFilter.of(pattern, table_type)
        if database == SYSTEM_DATABASE:
            listed = self.list_tables(database, pattern=pattern, table_type=table_type)
            return page_of((one for one in listed if one > (token or "")), limit)
        filters = {
            "maxResults": str(limit),
            "pageToken": token,
            "tableNamePattern": names.pattern,
            "tableType": names.table_type,
        }
        query = {key: value for key, value in filters.items() if value}
        path, what = self._paths.database(database, "tables"), f"list tables of {database!r}"
        part, following = self.client.page(what, path, "tables", query)
        return TablePage(tuple(filter(names.has_name, names_of(what, part))), following or None)

    def table_kinds(self, database: str) -> dict[str, str]:
        """Return what each table of a database is, by name and in order: `Paimon`, or the option `type` of
        its schema. It costs a request for each table.
        """
        if database == SYSTEM_DATABASE:
            return dict.fromkeys(self.list_tables(database), "system table")
        kinds = {}
        for name in self.list_tables(database):
            table = TableName(database, name)
            what = f"table {str(table)!r}"
            schema = object_of(what, self.client.get(what, self._paths.table(table)), "schema")
            kind = object_of(what, schema, "options").get("type", "table")
            kinds[name] = PAIMON_KIND if kind == "table" else str(kind)
        return kinds

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
        if parsed.database == SYSTEM_DATABASE and parsed.table in (*CATALOG_TABLES, *REMOVED_TABLES):
            facts = {"warehouse": self.name}
            return cast("Table", catalog_table(parsed.table, self._all_tables, facts))
        table = self._load(replace(parsed, system=None))
        table = table.with_options(options) if options else table
        return table if parsed.system is None else cast("Table", SystemTable(table, parsed.system.lower()))

    def _all_tables(self) -> Iterator[tuple[str, str, Table]]:
        for database in self.list_databases():
            for name in self.list_tables(database):
                yield database, name, self._load(TableName(database, name))

    def _load(self, name: TableName) -> Table:
        answer = self.client.get(f"table {str(name)!r}", self._paths.table(name))
        return load_rest_table(name, answer, self._storage, self._paths)

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
        """Create a table. It is checked here first; then the server makes it. With the option `path` it is
        external, as in a Hive catalog. With the option `type` it may be a format table or an object table,
        for which `table-default.*` does not count.

        Raises AlreadyExistsError unless `if_not_exists`, NotFoundError for a missing database,
        InvalidInputError for an invalid definition.
        """
        parsed = check_data_table(name, "created")
        definition = TableDefinition.of(
            definition, primary_keys=primary_keys, partition_keys=partition_keys, options=options
        )
        schema = self._first_schema(name, definition)
        table = self._create(parsed, schema, if_not_exists=if_not_exists)
        # the server gives object tables their columns
        if schema.fields and not if_not_exists and _columns(table.schema) != _columns(schema):
            raise AlreadyExistsError(
                f"table {name!r}: the server accepted its creation, but has other columns or keys for it, "
                "so another process created it at the same time; look at that table, or choose another name"
            )
        return table

    def _create(self, name: TableName, schema: TableSchema, *, if_not_exists: bool) -> Table:
        """Create a table and load it. A server may say that a table exists that another process is creating
        or dropping: with `if_not_exists` both are tried again then.
        """
        body = {"identifier": _identifier(name), "schema": schema_to_json(schema)}
        path = self._paths.database(name.database, "tables")
        for wait in (*_CREATION_WAITS, None):
            try:
                self._settle(
                    partial(self.client.post, f"create table {str(name)!r}", path, body),
                    lambda: self._has_schema(name, schema),
                )
            except AlreadyExistsError:
                if not if_not_exists:
                    raise
            try:
                return self._load(name)
            except NotFoundError:
                if wait is None or not if_not_exists:
                    raise
                self.clock.sleep(wait)
        raise AssertionError("the last try returns or raises an error")

    def _first_schema(self, name: str, definition: TableDefinition) -> TableSchema:
        """Return the schema of a new table. With the option `path` it is external: a table that is there
        keeps its schema, else the schema is published there, which servers do not do for external tables.
        """
        own = file_table_schema(name, definition, self.clock.now_ms())
        if own is not None:
            return own
        defaults = table_defaults(self.options)
        if PATH not in definition.options:
            return first_schema(with_table_defaults(definition, defaults), self.clock.now_ms())
        path = external_path(definition.options[PATH])
        storage = self._storage.of_directory(path)
        check_directory(storage, path, None)
        store = SchemaStore(storage, TablePaths(path), self.clock)
        choose = new_external_schema(name, definition, defaults, self.clock)
        schema = publish_external(choose, store, lambda one: None)
        return replace(schema, options={**schema.options, PATH: definition.options[PATH].rstrip("/")})

    def alter_table(
        self, name: str, changes: Sequence[SchemaChange] | SchemaChange | Sequence[Mapping[str, Any]]
    ) -> Table:
        """Change the schema, with all changes or none; the server decides what is allowed."""
        parsed = TableName.parse(name)
        if parsed.system is not None:
            raise InvalidInputError(
                f"table {name!r}: a system table cannot be changed; name the table itself"
            )
        body = {"changes": [change_to_json(change) for change in changes_of(changes)]}
        before = self._load(parsed).schema
        self._settle(
            partial(self.client.post, f"alter table {name!r}", self._paths.table(parsed), body),
            lambda: self._load(parsed).schema.id > before.id,
        )
        return self.load_table(name)

    def rename_table(self, name: str, new_name: str, *, if_exists: bool = False) -> None:
        """Give a table another name. Raises NotFoundError unless `if_exists`, AlreadyExistsError."""
        old, new = check_data_table(name, "renamed"), check_data_table(new_name, "the name of a table")
        body = {"source": _identifier(old), "destination": _identifier(new)}
        send = partial(self.client.post, f"rename table {name!r}", self._paths.of("tables", "rename"), body)
        try:
            self._settle(send, lambda: not self.table_exists(name) and self.table_exists(new_name))
        except MissingResourceError:
            if not if_exists:
                raise

    def drop_table(self, name: str, *, if_exists: bool = False, purge: bool = False) -> DroppedTable | None:
        """Drop a table: the server deletes its files, except those of an external table. Raises
        UnsupportedError unless `purge` where files are deleted, because nothing is kept, and for the purge of
        an external table; NotFoundError unless `if_exists`. A hold is not looked for: a server keeps none.
        """
        parsed = check_data_table(name, "dropped")
        send = partial(self.client.delete, f"drop table {name!r}", self._paths.table(parsed))
        try:
            self._check_purge(parsed, purge=purge)
            self._settle(send, lambda: not self.table_exists(name))
        except MissingResourceError:
            if not if_exists:
                raise
        return None

    def _check_purge(self, name: TableName, *, purge: bool) -> None:
        what = f"table {str(name)!r}"
        answer = self.client.get(what, self._paths.table(name))
        external = answer.get("isExternal") is True
        if not external and not purge:
            self._refuse_kept(what)
        if external and purge:
            raise UnsupportedError(
                f"{what} is external: its files at {answer.get('path')} stay when it is dropped; drop it "
                "without purge"
            )

    def dropped_tables(self, table: str | None = None) -> tuple[DroppedTable, ...]:
        """Return nothing: a server keeps no dropped tables."""
        return ()

    def restore_table(self, name: str, drop_id: str | None = None) -> Table:
        """Raise UnsupportedError: a server keeps no dropped tables."""
        raise UnsupportedError(
            f"table {name!r} cannot be restored: a REST catalog keeps no dropped tables; restore its files "
            "from a backup"
        )

    def _settle(self, send: Callable[[], object], happened: Callable[[], bool]) -> None:
        """Make a change. When its answer is lost, `happened` looks whether it took effect."""
        settled(lambda: send() or True, lambda: happened() or None, self.client.clock)

    def _has_database(self, name: str) -> bool:
        try:
            self.get_database(name)
        except MissingResourceError:
            return False
        return True

    def _has_properties(self, name: str, changed: Mapping[str, str], removed: Sequence[str]) -> bool:
        properties = self.get_database(name).properties
        return changed.items() <= properties.items() and not set(removed) & set(properties)

    def _has_schema(self, name: TableName, schema: TableSchema) -> bool:
        """Return whether the table exists as it was to be created: then a lost request created it."""
        try:
            present = self._load(name).schema
        except MissingResourceError:
            return False
        same = present.fields == schema.fields and schema.options.items() <= present.options.items()
        return same and present.primary_keys == schema.primary_keys

    def _refuse_kept(self, what: str) -> NoReturn:
        raise UnsupportedError(
            f"{what} cannot be dropped so that it can be restored: the server of a REST catalog deletes the "
            "files; drop it with purge if that is what you want"
        )


def _columns(schema: TableSchema) -> tuple[object, ...]:
    """Return what tells two new tables apart, without what a server may add."""
    return tuple(field.name for field in schema.fields), schema.primary_keys, schema.partition_keys


def _identifier(name: TableName) -> dict[str, str]:
    return {"database": name.database, "object": object_name(name)}
