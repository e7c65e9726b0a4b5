"""This module has the views and the functions of a REST catalog, which its server keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakecore.catalog.names import split_object
from lakecore.catalog.objects.function import Function, changed_function, check_function_name
from lakecore.catalog.objects.table_page import NamePage
from lakecore.catalog.objects.view import View, changed_view
from lakecore.catalog.rest.client import RestClient
from lakecore.catalog.rest.resource_paths import ResourcePaths
from lakecore.catalog.rest.rest_objects import RestObjects
from lakecore.data_class import dataclass

__all__ = ["RestFunctions", "RestViews"]


@dataclass(frozen=True)
class RestViews:
    """These are the views of a server."""

    objects: RestObjects[View]

    @classmethod
    def of(cls, client: RestClient, paths: ResourcePaths) -> RestViews:
        """Return the views of the server that the client asks."""
        return cls(RestObjects(client, paths, "views", _parse_view))

    def list(self, database: str) -> list[str]:
        """List the views of one database, in order. It costs one request a page."""
        return self.objects.list(database)

    def list_page(
        self, database: str, *, limit: int, token: str | None = None, pattern: str | None = None
    ) -> NamePage:
        """List one page as the server chooses and orders it. It is one request."""
        return self.objects.list_page(database, limit=limit, token=token, pattern=pattern)

    def get(self, name: str) -> View:
        """Return a view. Raises NotFoundError."""
        return self.objects.get(name)

    def create(self, name: str, view: View, *, if_not_exists: bool = False) -> None:
        """Create a view. Raises AlreadyExistsError unless `if_not_exists`."""
        database, own_name = split_object(name)
        body = {"identifier": {"database": database, "object": own_name}, "schema": view.to_json()}
        self.objects.create(name, view, body, if_not_exists=if_not_exists)

    def alter(self, name: str, changes: Sequence[Mapping[str, Any]]) -> View:
        """Make changes, all or none. Raises InvalidInputError, and AlreadyExistsError or NotFoundError for a
        dialect, before anything is sent.
        """
        return self.objects.alter(name, changes, changed_view(self.get(name), changes))

    def rename(self, name: str, new_name: str) -> None:
        """Give a view another name. Raises AlreadyExistsError."""
        self.objects.rename(name, new_name)

    def drop(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a view. Raises NotFoundError unless `if_exists`."""
        self.objects.drop(name, if_exists=if_exists)


@dataclass(frozen=True)
class RestFunctions:
    """These are the functions of a server."""

    objects: RestObjects[Function]

    @classmethod
    def of(cls, client: RestClient, paths: ResourcePaths) -> RestFunctions:
        """Return the functions of the server that the client asks."""
        return cls(RestObjects(client, paths, "functions", _parse_function))

    def list(self, database: str) -> list[str]:
        """List the functions of one database, in order. It costs one request a page."""
        return self.objects.list(database)

    def list_page(
        self, database: str, *, limit: int, token: str | None = None, pattern: str | None = None
    ) -> NamePage:
        """List one page as the server chooses and orders it. It is one request."""
        return self.objects.list_page(database, limit=limit, token=token, pattern=pattern)

    def get(self, name: str) -> Function:
        """Return a function. Raises NotFoundError."""
        return self.objects.get(name)

    def create(self, name: str, function: Function, *, if_not_exists: bool = False) -> None:
        """Create a function. Raises AlreadyExistsError unless `if_not_exists`, InvalidInputError for a name
        that Paimon refuses.
        """
        own_name = check_function_name(split_object(name)[1])
        self.objects.create(
            name, function, {"name": own_name, **function.to_json()}, if_not_exists=if_not_exists
        )

    def alter(self, name: str, changes: Sequence[Mapping[str, Any]]) -> Function:
        """Make changes, all or none. Raises InvalidInputError, and AlreadyExistsError or NotFoundError for a
        definition, before anything is sent.
        """
        return self.objects.alter(name, changes, changed_function(self.get(name), changes))

    def drop(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a function. Raises NotFoundError unless `if_exists`."""
        self.objects.drop(name, if_exists=if_exists)


def _parse_view(answer: Mapping[str, Any]) -> View:
    schema = answer.get("schema")
    return View.from_schema(schema if isinstance(schema, Mapping) else {})


def _parse_function(answer: Mapping[str, Any]) -> Function:
    keys = Function().to_json()  # a server may say more
    return Function.from_json({key: answer[key] for key in keys if answer.get(key) is not None})
