"""This module finds directories outside a table's own where it keeps data files: option
`data-file.external-paths`.

Rule of the format: files lie below such a root as they would below the table's directory, without the table's
name. Two tables that name one root share its folders, and nothing there tells whose a file is. So a root is
looked at only when no other table of the warehouse lies in it or names it, or a part of it, or more than it;
tables of other warehouses cannot be seen: whoever asks for external roots vouches for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, InvalidInputError, UnsupportedError
from lakecore.fs.allowed_paths import EXTERNAL_PATHS
from lakecore.fs.file_io import FileIO
from lakecore.fs.resolve import plain_path
from lakecore.maintain.target import in_threads
from lakecore.metadata.schema import TableSchema
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore

__all__ = ["ExternalRoots", "external_roots", "is_created_by_writers"]

_FRESH = re.compile(r".*-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9]+(\..+)?")


@dataclass(frozen=True, slots=True)
class ExternalRoots:
    """`own` are plain paths that are the table's alone. `skipped` says why others are left alone, for
    people.
    """

    own: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def is_created_by_writers(name: str) -> bool:
    """Return whether a file has a fresh name, as writers of the format give: files of other names were made
    by others.
    """
    return _FRESH.fullmatch(name) is not None


def external_roots(file_io: FileIO, warehouse: str, table_path: str, schema: TableSchema) -> ExternalRoots:
    """Return the external roots of a table. The cost, if it has any, is one listing per database and one
    small read per table of the warehouse.

    Raises UnsupportedError when another table's schema cannot be read: it may name the same root.
    """
    external, skipped = _listable_roots(schema, warehouse)
    external = [root for root in external if not _within(root, table_path)]
    if not external:
        return ExternalRoots(skipped=tuple(skipped))
    own = []
    claims = list(_claims(file_io, warehouse, table_path))
    for root in dict.fromkeys(external):
        other = next((table for path, table in claims if _within(path, root) or _within(root, path)), None)
        if other is None and not _within(table_path, root):
            own.append(root)
        else:
            skipped.append(f"{root} is not examined: {other or table_path} lies in it or names it, too")
    return ExternalRoots(tuple(own), tuple(skipped))


def _listable_roots(schema: TableSchema, warehouse: str) -> tuple[list[str], list[str]]:
    """Return the roots that this storage can list, and why not the others."""
    listable, skipped = [], []
    for text in EXTERNAL_PATHS.read(schema.options):
        try:
            root = plain_path(text)
        except InvalidInputError as err:
            skipped.append(f"{text} is not examined: {err}")
            continue
        if _storage(root) == _storage(warehouse):
            listable.append(root)
        else:
            skipped.append(f"{root} is not examined: it is on another storage than the warehouse")
    return listable, skipped


def _storage(path: str) -> str:
    return path.partition("://")[0] if "://" in path else ""


def _within(path: str, root: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{root.rstrip('/')}/")


def _claims(file_io: FileIO, warehouse: str, table_path: str) -> Iterator[tuple[str, str]]:
    """Yield the places of the warehouse's other tables, each with the table that has or names it."""
    databases = [s.path for s in file_io.list(warehouse) if s.is_dir and s.name.endswith(".db")]
    tables = [s.path for directories in in_threads(file_io.list, databases) for s in directories if s.is_dir]
    others = [path for path in tables if path != table_path]
    for path, roots in zip(others, in_threads(lambda path: _roots_of(file_io, path), others), strict=True):
        yield path, path
        yield from ((root, path) for root in roots)


def _roots_of(file_io: FileIO, path: str) -> tuple[str, ...]:
    """Return the roots that any schema of a table names."""
    try:
        store = SchemaStore(file_io, TablePaths(path))
        schemas = map(store.load, store.list_ids())
        parts = {part for schema in schemas for part in EXTERNAL_PATHS.read(schema.options)}
    except CorruptDataError as err:
        raise UnsupportedError(
            f"{err}: it is not known whether {path} shares an external root, so no external root is examined"
        ) from err
    roots = []
    for part in sorted(parts):
        try:
            roots.append(plain_path(part))
        except InvalidInputError:
            continue  # another storage
    return tuple(roots)
