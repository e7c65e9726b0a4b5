"""This module has the views of a JDBC catalog, in the table `paimon_views` of Paimon 2.0."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from lakecore.catalog.jdbc.names import JdbcNames
from lakecore.catalog.names import TableName, alternatives, check_not_system, split_object
from lakecore.catalog.objects.table_page import NamePage, name_page_of
from lakecore.catalog.objects.view import View, changed_view
from lakecore.catalog.privileges.grants import Privilege
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, CorruptDataError, InvalidInputError, NotFoundError

__all__ = ["JdbcViews"]

_OF_VIEW = "catalog_key = :key AND database_name = :database AND view_name = :view"


@dataclass(frozen=True)
class JdbcViews:
    """These are the views of a catalog. A view and a table cannot have one name; a change holds the lock that
    a table of this name would have, if the catalog uses its lock. Each method is a few statements.
    """

    names: JdbcNames
    lock_of: Callable[[TableName], AbstractContextManager[None]]
    """It returns what excludes other changes of a name."""
    locks_of: Callable[[TableName, TableName], AbstractContextManager[None]]
    """It does so for two names."""
    check_database: Callable[[TableName], None]
    """It raises NotFoundError for a database that does not exist, InvalidInputError for a name that the
    database cannot store.
    """
    check_privilege: Callable[[Privilege, str, str | None], None]

    def list(self, database: str) -> list[str]:
        """List the views of one database, in order. Raises NotFoundError for one that does not exist."""
        self.check_database(TableName(database, ""))
        return sorted(self.names.views(database))

    def list_page(
        self, database: str, *, limit: int, token: str | None = None, pattern: str | None = None
    ) -> NamePage:
        """List one page of at most `limit` views after the name `token`. It costs as much as the list."""
        return name_page_of(self.list(database), limit=limit, token=token, pattern=pattern)

    def get(self, name: str) -> View:
        """Return a view. Raises NotFoundError, CorruptDataError for JSON that is no view."""
        parsed = _name_of(name)
        stored = self._schema_of(parsed)
        if stored is None:
            views = alternatives("views", parsed.table, self.names.views(parsed.database))
            raise NotFoundError(f"view {name!r} does not exist; {views}")
        try:
            raw = json.loads(stored)
            return View.from_schema(raw if isinstance(raw, Mapping) else {})
        except (ValueError, InvalidInputError) as err:
            place = f"{self.names.connection.place}, paimon_views, {name}"
            raise CorruptDataError(place, f"not the schema of a view: {err}") from err

    def create(self, name: str, view: View, *, if_not_exists: bool = False) -> None:
        """Create a view. Raises AlreadyExistsError for the name of a view, unless `if_not_exists`, and for
        that of a table, InvalidInputError for a view that the column cannot store.
        """
        parsed = _name_of(name)
        check_not_system(parsed.database, "changed")
        self.check_privilege(Privilege.CREATE_TABLE, parsed.database, None)
        self.check_database(parsed)
        self.names.create_views()
        with self.lock_of(parsed):
            if if_not_exists and self._schema_of(parsed) is not None:
                return
            self._check_free(parsed)
            with self.names.transaction(f"create view {name}") as run:
                run(
                    "INSERT INTO paimon_views (catalog_key, database_name, view_name, view_schema) "
                    "VALUES (:key, :database, :view, :schema)",
                    **_values_of(parsed),
                    schema=self._text(view),
                )

    def alter(self, name: str, changes: Sequence[Mapping[str, Any]]) -> View:
        """Make changes, all or none, and return the view. Raises InvalidInputError, and AlreadyExistsError or
        NotFoundError for a dialect.
        """
        parsed = _name_of(name)
        self.check_privilege(Privilege.ALTER_TABLE, parsed.database, parsed.table)
        with self.lock_of(parsed):
            view = changed_view(self.get(name), changes)
            with self.names.transaction(f"alter view {name}") as run:
                run(
                    f"UPDATE paimon_views SET view_schema = :schema WHERE {_OF_VIEW}",
                    **_values_of(parsed),
                    schema=self._text(view),
                )
        return view

    def rename(self, name: str, new_name: str) -> None:
        """Give a view another name, in its database or another one. Raises AlreadyExistsError for the name of
        a view or a table.
        """
        old, new = _name_of(name), _name_of(new_name)
        check_not_system(new.database, "changed")
        self.check_privilege(Privilege.ALTER_TABLE, old.database, old.table)
        self.get(name)
        self.check_database(new)
        self._check_free(new)  # a rename to its own name would wait for its own lock
        with self.locks_of(old, new):
            self.get(name)
            self._check_free(new)
            with self.names.transaction(f"rename view {name}") as run:
                run(
                    "UPDATE paimon_views SET database_name = :new_database, view_name = :new_view "
                    f"WHERE {_OF_VIEW}",
                    **_values_of(old),
                    new_database=new.database,
                    new_view=new.table,
                )

    def drop(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a view; it cannot be restored. Raises NotFoundError unless `if_exists`."""
        parsed = _name_of(name)
        self.check_privilege(Privilege.DROP_TABLE, parsed.database, parsed.table)
        with self.lock_of(parsed):
            if self._schema_of(parsed) is None:
                if if_exists:
                    return
                self.get(name)
            with self.names.transaction(f"drop view {name}") as run:
                run(f"DELETE FROM paimon_views WHERE {_OF_VIEW}", **_values_of(parsed))

    def _schema_of(self, name: TableName) -> str | None:
        if not self.names.has_views():
            return None
        with self.names.transaction(f"read view {name}") as run:
            rows = run(f"SELECT view_schema FROM paimon_views WHERE {_OF_VIEW}", **_values_of(name))
            return next((str(row[0]) for row in rows), None)

    def _check_free(self, name: TableName) -> None:
        for kind, exists in (
            ("table", self.names.has_table(name)),
            ("view", self._schema_of(name) is not None),
        ):
            if exists:
                raise AlreadyExistsError(f"view {str(name)!r}: a {kind} of the catalog has this name")

    def _text(self, view: View) -> str:
        """Return the JSON that is stored. MySQL gets escapes where its column has no such character."""
        raw = {key: value for key, value in view.to_json().items() if value is not None}
        text = json.dumps(raw, ensure_ascii=False, separators=(",", ":"))
        return text if self.names.connection.can_store(text) else json.dumps(raw)


def _name_of(name: str) -> TableName:
    return TableName(*split_object(name))


def _values_of(name: TableName) -> dict[str, str]:
    return {"database": name.database, "view": name.table}
