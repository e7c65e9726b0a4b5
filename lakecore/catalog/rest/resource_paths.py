"""This module names the resources of a REST server (Java's `ResourcePaths`). It is pure."""

from __future__ import annotations

from dataclasses import replace

from lakecore.catalog.names import TableName, check_name, split_object
from lakecore.data_class import dataclass

__all__ = ["ResourcePaths", "object_name"]

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResourcePaths:
    """These are the paths of one server, part by part and not encoded. `prefix` follows `/v1`; it may be
    empty.
    """

    prefix: str

    def of(self, *parts: str) -> Path:
        """Return the path of these parts."""
        return ("v1", *((self.prefix,) if self.prefix else ()), *parts)

    def database(self, name: str, *parts: str) -> Path:
        """Return the path of a database, or below it. Raises InvalidInputError for what is no name."""
        return self.of("databases", check_name(name, "database"), *parts)

    def table(self, name: TableName, *parts: str) -> Path:
        """Return the path of a table or of a branch of one, or below it."""
        return self.database(name.database, "tables", object_name(name), *parts)

    def object(self, kind: str, name: str) -> Path:
        """Return the path of a view or a function, `db.name`; `kind` is `views` or `functions`."""
        database, own_name = split_object(name)
        return self.database(database, kind, own_name)


def object_name(name: TableName) -> str:
    """Return the name without its database: `t`, or `t$branch_b`."""
    return str(replace(name, system=None)).partition(".")[2]
