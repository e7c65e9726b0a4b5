"""This module has the views of a Hive catalog, which engines such as Hive and Spark have, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakecore.catalog.hive.metastore import HiveMetastore
from lakecore.catalog.hive.names import check_hive_name
from lakecore.catalog.hive.views.view_entries import (
    VIEW,
    changed_view_entry,
    check_options,
    check_view,
    is_view,
    new_view_entry,
    view_of_entry,
)
from lakecore.catalog.names import SYSTEM_DATABASE, TableName, alternatives, check_not_system
from lakecore.catalog.objects.stored_views import StoredViews, view_name
from lakecore.catalog.objects.view import View, changed_view
from lakecore.catalog.privileges.grants import Privilege
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, NotFoundError

__all__ = ["HiveViews"]


@dataclass(frozen=True, kw_only=True)
class HiveViews(StoredViews):
    """These are the views of a metastore. Each method is a few calls."""

    metastore: HiveMetastore

    def list(self, database: str) -> list[str]:
        """List the views of one database, in order; `sys` has none. Raises NotFoundError for one that does
        not exist.
        """
        if database == SYSTEM_DATABASE:
            return []
        self.check_database(TableName(database, ""))
        return sorted(self.metastore.names_of_type(database, VIEW))

    def get(self, name: str) -> View:
        """Return a view. Raises NotFoundError, UnsupportedError for a column of a type that Paimon lacks."""
        parsed = view_name(name)
        return view_of_entry(parsed, self._entry(parsed))

    def create(self, name: str, view: View, *, if_not_exists: bool = False) -> None:
        """Create a view. Raises AlreadyExistsError for the name of a view, unless `if_not_exists`, and for
        that of a table, InvalidInputError and UnsupportedError for a view that the metastore cannot store.
        """
        parsed = view_name(name)
        check_not_system(parsed.database, "changed")
        self.check_privilege(Privilege.CREATE_TABLE, parsed.database, None)
        check_hive_name(parsed.table, "view")
        check_view(parsed, view)
        self.check_database(parsed)
        with self.lock_of(parsed):
            if if_not_exists and is_view(self.metastore.table(parsed)):
                return
            now_ms = self.metastore.connection.clock.now_ms()
            try:
                self._check_free(parsed)
                self.metastore.create_table(new_view_entry(parsed, view, now_ms))
            except AlreadyExistsError:
                if not if_not_exists or not is_view(self.metastore.table(parsed)):
                    raise

    def alter(self, name: str, changes: Sequence[Mapping[str, Any]]) -> View:
        """Change comment and options, all or none, and return the view. Raises InvalidInputError, and
        UnsupportedError for a dialect.
        """
        parsed = view_name(name)
        self.check_privilege(Privilege.ALTER_TABLE, parsed.database, parsed.table)
        with self.lock_of(parsed):
            record = self._entry(parsed)
            before = view_of_entry(parsed, record)
            view = changed_view(before, changes)
            check_options(parsed, view)
            if view != before:
                entry = changed_view_entry(record, view)
                self.metastore.alter_table(entry, cascade=False, skip_statistics=True)
        return view

    def drop(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a view; it cannot be restored. Raises NotFoundError unless `if_exists`."""
        parsed = view_name(name)
        self.check_privilege(Privilege.DROP_TABLE, parsed.database, parsed.table)
        with self.lock_of(parsed):
            if is_view(self.metastore.table(parsed)):
                self.metastore.drop_table(parsed)
            elif not if_exists:
                self._entry(parsed)

    def _check_renamed(self, old: TableName, new: TableName) -> None:
        check_hive_name(new.table, "view")
        self._entry(old)

    def _move(self, old: TableName, new: TableName) -> None:
        record = self._entry(old)
        self._check_free(new)
        record.dbName, record.tableName = new.database, new.table
        self.metastore.rename_table(old, record)

    def _entry(self, name: TableName) -> Any:
        """Return the entry of a view. Raises NotFoundError."""
        record = self.metastore.table(name)
        if is_view(record):
            return record
        if record is not None:
            raise NotFoundError(
                f"view {str(name)!r} does not exist: a table, or a materialized view, has this name"
            )
        self.check_database(name)
        views = alternatives("views", name.table, self.list(name.database))
        raise NotFoundError(f"view {str(name)!r} does not exist; {views}")

    def _check_free(self, name: TableName) -> None:
        record = self.metastore.table(name)
        if record is not None:
            kind = "view" if is_view(record) else "table"
            raise AlreadyExistsError(f"view {str(name)!r}: a {kind} of the catalog has this name")
