"""This module has what views and functions of a REST catalog share: requests, and lost answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from lakecore.catalog.names import check_not_system, split_object
from lakecore.catalog.objects.table_page import NamePage
from lakecore.catalog.remote.settled import settled
from lakecore.catalog.rest.answers import MissingResourceError, names_of
from lakecore.catalog.rest.client import RestClient
from lakecore.catalog.rest.name_pages import PageRequest, page_of_server
from lakecore.catalog.rest.resource_paths import ResourcePaths
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, InvalidInputError, UnavailableError

__all__ = ["RestObjects"]

T = TypeVar("T")


@dataclass(frozen=True)
class RestObjects(Generic[T]):
    """These are the objects of one kind. A change whose answer is lost is looked for, as with tables."""

    client: RestClient
    paths: ResourcePaths
    kind: str
    """This is the part of paths and the key of lists: `views`, `functions`."""
    parse: Callable[[Mapping[str, Any]], T]
    """It parses an answer. Raises InvalidInputError."""

    @property
    def word(self) -> str:
        """Return what one object is called in messages."""
        return self.kind.removesuffix("s")

    def list(self, database: str) -> list[str]:
        """List the names of one database, in order. It costs one request a page."""
        path, what = self.paths.database(database, self.kind), f"list {self.kind} of {database!r}"
        return sorted(names_of(what, self.client.list(what, path, self.kind)))

    def list_page(self, database: str, *, limit: int, token: str | None, pattern: str | None) -> NamePage:
        """List one page as the server chooses and orders it. Raises InvalidInputError for a limit below 1."""
        path = self.paths.database(database, self.kind)
        what, key = f"list {self.kind} of {database!r}", f"{self.word}NamePattern"
        return page_of_server(self.client, what, path, self.kind, PageRequest(limit, token, key, pattern))

    def get(self, name: str) -> T:
        """Return an object. Raises NotFoundError, UnavailableError for an answer that is none."""
        what = f"{self.word} {name!r}"
        answer = self.client.get(what, self.paths.object(self.kind, name))
        try:
            return self.parse(answer)
        except InvalidInputError as err:
            raise UnavailableError(f"{what}: the answer of the server is no {self.word}: {err}") from err

    def create(self, name: str, value: T, body: Mapping[str, Any], *, if_not_exists: bool) -> None:
        """Create an object. Raises AlreadyExistsError unless `if_not_exists`."""
        database, _ = split_object(name)
        check_not_system(database, "changed")
        path = self.paths.database(database, self.kind)
        send = partial(self.client.post, f"create {self.word} {name!r}", path, body)
        try:
            self._settle(send, lambda: self._find(name) == value)
        except AlreadyExistsError:
            if not if_not_exists:
                raise

    def alter(self, name: str, changes: Sequence[Mapping[str, Any]], expected: T) -> T:
        """Send the changes, after which the object is as expected."""
        send = partial(
            self.client.post,
            f"alter {self.word} {name!r}",
            self.paths.object(self.kind, name),
            {"changes": [dict(one) for one in changes]},
        )
        self._settle(send, lambda: self._find(name) == expected)
        return self.get(name)

    def rename(self, name: str, new_name: str) -> None:
        """Give an object another name. Raises AlreadyExistsError."""
        names = ("source", "destination"), (name, new_name)
        body = {key: _identifier(one) for key, one in zip(*names, strict=True)}
        path = self.paths.of(self.kind, "rename")
        send = partial(self.client.post, f"rename {self.word} {name!r}", path, body)
        self._settle(send, lambda: self._find(name) is None and self._find(new_name) is not None)

    def drop(self, name: str, *, if_exists: bool) -> None:
        """Drop an object. Raises NotFoundError unless `if_exists`."""
        send = partial(self.client.delete, f"drop {self.word} {name!r}", self.paths.object(self.kind, name))
        try:
            self._settle(send, lambda: self._find(name) is None)
        except MissingResourceError:
            if not if_exists:
                raise

    def _find(self, name: str) -> T | None:
        try:
            return self.get(name)
        except MissingResourceError:
            return None

    def _settle(self, send: Callable[[], object], happened: Callable[[], bool]) -> None:
        settled(lambda: send() or True, lambda: happened() or None, self.client.clock)


def _identifier(name: str) -> dict[str, str]:
    database, own_name = split_object(name)
    return {"database": database, "object": own_name}
