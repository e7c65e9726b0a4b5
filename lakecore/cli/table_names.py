"""This module resolves table arguments of commands that take several: names and globs such as `db.*`."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from lakecore.catalog.catalog import Catalog
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.jobs.runner.table_directories import TableDirectories, TableLister

__all__ = ["TableNames", "expand_tables"]

_GLOB = frozenset("*?[")


def expand_tables(catalog: Catalog, patterns: Sequence[str]) -> list[str]:
    """Return the names in the given order, each once; a glob is replaced by its matches in order. A directory
    that has snapshots, but lost its schema, matches, so that it fails under its name.

    Plain names are not checked. Raises NotFoundError for a glob that matches nothing.
    """
    return _expand(catalog, patterns, TableDirectories(catalog))


def _expand(catalog: Catalog, patterns: Sequence[str], lister: TableLister) -> list[str]:
    names: dict[str, None] = {}
    for pattern in patterns:
        matches = _matches(lister, pattern) if _GLOB & set(pattern) else [pattern]
        if not matches:
            raise NotFoundError(f"no table matches {pattern!r} in {catalog.warehouse}")
        names.update(dict.fromkeys(matches))
    return list(names)


@dataclass(frozen=True, slots=True)
class TableNames:
    """It lists the tables that the arguments of a command name, again and again. It can be pickled where the
    catalog can.
    """

    catalog: Catalog
    patterns: tuple[str, ...]

    def __call__(self) -> list[str]:
        """Return the names as `expand_tables` does, without directories that lost their schema: they would
        fail again in each round.
        """
        return _expand(self.catalog, self.patterns, self.catalog)


def _matches(lister: TableLister, pattern: str) -> list[str]:
    database, dot, table = pattern.partition(".")
    if not dot or not table:
        raise InvalidInputError(f"table {pattern!r}: write DATABASE.TABLE, for example 'db.*'")
    return [
        f"{name}.{matches}"
        for name in lister.list_databases()
        if fnmatchcase(name, database)
        for matches in lister.list_tables(name)
        if fnmatchcase(matches, table)
    ]
