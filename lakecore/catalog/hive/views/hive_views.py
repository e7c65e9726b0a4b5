"""This module has the views of a Hive catalog, which engines such as Hive and Spark have, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
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
from lakecore.catalog.names import SYSTEM_DATABASE, TableName, alternatives, check_not_system, split_object
from lakecore.catalog.objects.table_page import NamePage, name_page_of
from lakecore.catalog.objects.view import View, changed_view
from lakecore.catalog.privileges.grants import Privilege
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, NotFoundError

__all__ = ["HiveViews"]


@dataclass(frozen=True)
class HiveViews:
    """These are the views of a metastore. A view and a table cannot have one name; a change holds the lock
    that a table of this name would have, if the catalog uses its lock. Each method is a few calls.
    """

    metastore: HiveMetastore
    lock_of: Callable[[TableName], AbstractContextManager[None]]
    """It returns what excludes other changes of a name."""
    locks_of: Callable[[TableName, TableName], AbstractContextManager[None]]
    """It does so for two names."""
    check_database: Callable[[TableName], None]
    """It raises NotFoundError for a database that does not exist."""
    check_privilege: Callable[[Privilege, str, str | None], None]

    def list(self, database: str) -> list[str]:
        """List the views of one database, in order; `sys` has none. Raises NotFoundError for one that does
        not exist.
        """
        if database == SYSTEM_DATABASE:
            return []
        self.check_database(TableName(database, ""))
        return sorted(self.metastore.names_of_type(database, VIEW))

    def list_page(
        self, database: str, *, limit: int, token: str | None = None, pattern: str | None = None
    ) -> NamePage:
        """List one page of at most `limit` views after the name `token`. It costs as much as the list."""
        return name_page_of(self.list(database), limit=limit, token=token, pattern=pattern)

    def get(self, name: str) -> View:
        """Return a view. Raises NotFoundError, UnsupportedError for a column of a type that Paimon lacks."""
        parsed = _name_of(name)
        return view_of_entry(parsed, self._entry(parsed))

    def create(self, name: str, view: View, *, if_not_exists: bool = False) -> None:
        """Create a view. Raises AlreadyExistsError for the name of a view, unless `if_not_exists`, and for
        that of a table, InvalidInputError and UnsupportedError for a view that the metastore cannot store.
        """
        parsed = _name_of(name)
        check_not_system(parsed.database, "changed")
        self.check_privilege(Privilege.CREATE_TABLE, parsed.database, None)
        check_hive_name(parsed.table, "view")
        check_view(parsed, view)
        self.check_database(parsed)
        with self.lock_of(parsed):
            if if_not_exists and is_view(self.metastore.table(parsed)):
                return
            self._check_free(parsed)
            now_ms = self.metastore.connection.clock.now_ms()
            self.metastore.create_table(new_view_entry(parsed, view, now_ms))

    def alter(self, name: str, changes: Sequence[Mapping[str, Any]]) -> View:
        """Change comment and options, all or none, and return the view. Raises InvalidInputError, and
        UnsupportedError for a dialect.
        """
        parsed = _name_of(name)
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

    def rename(self, name: str, new_name: str) -> None:
        """Give a view another name, in its database or another one. Raises AlreadyExistsError for the name of
        a view or a table.
        """
        old, new = _name_of(name), _name_of(new_name)
        check_not_system(new.database, "changed")
        self.check_privilege(Privilege.ALTER_TABLE, old.database, old.table)
        check_hive_name(new.table, "view")
        self._entry(old)
        self.check_database(new)
        self._check_free(new)  # a rename to its own name would wait for its own lock
        with self.locks_of(old, new):
            record = self._entry(old)
            self._check_free(new)
            record.dbName, record.tableName = new.database, new.table
            self.metastore.rename_table(old, record)

    def drop(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a view; it cannot be restored. Raises NotFoundError unless `if_exists`."""
        parsed = _name_of(name)
        self.check_privilege(Privilege.DROP_TABLE, parsed.database, parsed.table)
        with self.lock_of(parsed):
            if is_view(self.metastore.table(parsed)):
                self.metastore.drop_table(parsed)
            elif not if_exists:
                self._entry(parsed)

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


def _name_of(name: str) -> TableName:
    return TableName(*split_object(name))
