"""This module has views: a query under a name, with the columns of its result. It is pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

from lakecore.catalog.definition import columns_from_json
from lakecore.catalog.objects.changes import (
    changed_entries,
    changed_options,
    check_change,
    check_keys,
    texts_of,
)
from lakecore.catalog.objects.table_page import NamePage
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.types.datatypes import DataField

__all__ = ["View", "Views", "changed_view"]

_SCHEMA = ("fields", "query", "dialects", "comment", "options")
_CHANGES = {
    "addDialect": ("dialect", "query"),
    "updateDialect": ("dialect", "query"),
    "dropDialect": ("dialect",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """This is a view as Paimon has it. No engine runs it here."""

    columns: tuple[DataField, ...]
    query: str
    """This is the query where no dialect of an engine fits."""
    dialects: Mapping[str, str] = field(default_factory=dict)
    """These are queries by engine, such as `spark`."""
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> View:
        """Parse `{"columns": ["k BIGINT"], "query": …, "dialects": {}, "comment": …, "options": {}}`; the key
        `fields` is Paimon's for `columns`. Raises InvalidInputError naming what is wrong.
        """
        columns = "fields" if "fields" in raw else "columns"
        check_keys(raw, (columns, "query"), ("dialects", "comment", "options"))
        query = raw["query"]
        if not isinstance(query, str) or not query.strip():
            raise InvalidInputError("view: the query must be a text that is not empty")
        return cls(
            columns=columns_from_json(raw[columns]),
            query=query,
            dialects=texts_of(raw.get("dialects") or {}, "dialects"),
            comment=raw.get("comment"),
            options=texts_of(raw.get("options") or {}, "options"),
        )

    @classmethod
    def from_schema(cls, raw: Mapping[str, Any]) -> View:
        """Parse the JSON of Paimon's `ViewSchema`, which may have keys that are unknown, or null. Raises
        InvalidInputError.
        """
        return cls.from_json({key: raw[key] for key in _SCHEMA if raw.get(key) is not None})

    def to_json(self) -> dict[str, Any]:
        """Convert the view to the JSON of Paimon's `ViewSchema`."""
        return {
            "fields": [one.to_json() for one in self.columns],
            "query": self.query,
            "dialects": dict(self.dialects),
            "comment": self.comment,
            "options": dict(self.options),
        }


class Views(Protocol):
    """These are the views of a catalog. Names are `db.v`; methods raise NotFoundError for what does not
    exist.
    """

    def list(self, database: str) -> list[str]:
        """List the views of one database, in order."""

    def list_page(
        self, database: str, *, limit: int, token: str | None = None, pattern: str | None = None
    ) -> NamePage:
        """List one page of at most `limit` views, those whose names are like `pattern` (`v_%`). `token` is
        the `next_token` of the page before, None for the first page.
        """

    def get(self, name: str) -> View:
        """Return a view."""

    def create(self, name: str, view: View, *, if_not_exists: bool = False) -> None:
        """Create a view. Raises AlreadyExistsError unless `if_not_exists`."""

    def alter(self, name: str, changes: Sequence[Mapping[str, Any]]) -> View:
        """Make changes in Paimon's JSON, all or none, and return the view."""

    def rename(self, name: str, new_name: str) -> None:
        """Give a view another name. Raises AlreadyExistsError."""

    def drop(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a view."""


def changed_view(view: View, changes: Sequence[Mapping[str, Any]]) -> View:
    """Return the view after the changes. Raises InvalidInputError for what is no change, AlreadyExistsError
    and NotFoundError for a dialect that is there already, or is not.
    """
    for raw in changes:
        change = check_change(raw, _CHANGES)
        view = replace(view, options=changed_options(view.options, change))
        if change["action"] == "updateComment":
            view = replace(view, comment=change["comment"])
        if change["action"] in _CHANGES:
            dialect, query = str(change["dialect"]), change.get("query")
            dialects = changed_entries(view.dialects, change["action"], dialect, query)
            view = replace(view, dialects=texts_of(dialects, "dialects"))
    return view
