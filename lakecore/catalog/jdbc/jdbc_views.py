"""This module has the views of a JDBC catalog, in the table `paimon_views` of Paimon 2.0."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lakecore.catalog.jdbc.names import JdbcNames
from lakecore.catalog.jdbc.statements import OF_VIEW
from lakecore.catalog.names import TableName, alternatives, check_not_system
from lakecore.catalog.objects.stored_views import StoredViews, view_name
from lakecore.catalog.objects.view import View, changed_view
from lakecore.catalog.privileges.grants import Privilege
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, CorruptDataError, InvalidInputError, NotFoundError

__all__ = ["JdbcViews"]


@dataclass(frozen=True, kw_only=True)
class JdbcViews(StoredViews):
    """These are the views of a JDBC catalog. Each method is a few statements."""

    names: JdbcNames

    def list(self, database: str) -> list[str]:
        """List the views of one database, in order. Raises NotFoundError for one that does not exist."""
        self.check_database(TableName(database, ""))
        return sorted(self.names.views(database))

    def get(self, name: str) -> View:
        """Return a view. Raises NotFoundError, CorruptDataError for JSON that is no view."""
        parsed = view_name(name)
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
        parsed = view_name(name)
        check_not_system(parsed.database, "changed")
        self.check_privilege(Privilege.CREATE_TABLE, parsed.database, None)
        self.check_database(parsed)
        self.names.create_views()
        with self.lock_of(parsed):
            if if_not_exists and self._schema_of(parsed) is not None:
                return
            try:
                self._check_free(parsed)
                self.names.add_view(parsed, self._text(view))
            except AlreadyExistsError:
                if not if_not_exists or self._schema_of(parsed) is None:
                    raise

    def alter(self, name: str, changes: Sequence[Mapping[str, Any]]) -> View:
        """Make changes, all or none, and return the view. Raises InvalidInputError, and AlreadyExistsError or
        NotFoundError for a dialect.
        """
        parsed = view_name(name)
        self.check_privilege(Privilege.ALTER_TABLE, parsed.database, parsed.table)
        with self.lock_of(parsed):
            view = changed_view(self.get(name), changes)
            with self.names.transaction(f"alter view {name}") as run:
                run(
                    f"UPDATE paimon_views SET view_schema = :schema WHERE {OF_VIEW}",
                    **_values_of(parsed),
                    schema=self._text(view),
                )
        return view

    def drop(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a view; it cannot be restored. Raises NotFoundError unless `if_exists`."""
        parsed = view_name(name)
        self.check_privilege(Privilege.DROP_TABLE, parsed.database, parsed.table)
        with self.lock_of(parsed):
            if self._schema_of(parsed) is None:
                if if_exists:
                    return
                self.get(name)
            with self.names.transaction(f"drop view {name}") as run:
                run(f"DELETE FROM paimon_views WHERE {OF_VIEW}", **_values_of(parsed))

    def _check_renamed(self, old: TableName, new: TableName) -> None:
        self.get(str(old))

    def _move(self, old: TableName, new: TableName) -> None:
        self.get(str(old))
        self._check_free(new)
        with self.names.transaction(f"rename view {old}") as run:
            run(
                "UPDATE paimon_views SET database_name = :new_database, view_name = :new_view "
                f"WHERE {OF_VIEW}",
                **_values_of(old),
                new_database=new.database,
                new_view=new.table,
            )

    def _schema_of(self, name: TableName) -> str | None:
        if not self.names.has_views():
            return None
        with self.names.transaction(f"read view {name}") as run:
            rows = run(f"SELECT view_schema FROM paimon_views WHERE {OF_VIEW}", **_values_of(name))
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


def _values_of(name: TableName) -> dict[str, str]:
    return {"database": name.database, "view": name.table}
