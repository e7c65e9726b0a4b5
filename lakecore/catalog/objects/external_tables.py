"""This module has the rules for new external tables: their option `path` says where their files are.

A drop of such a table leaves the files. What lies there already becomes the table if it is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from lakecore.catalog.definition import TableDefinition, first_schema
from lakecore.catalog.field_ids import numbered_column
from lakecore.catalog.warehouse.table_defaults import with_table_defaults
from lakecore.clock import Clock
from lakecore.errors import AlreadyExistsError, CommitConflictError, InvalidInputError, InvalidOptionError
from lakecore.fs.allowed_paths import is_below
from lakecore.fs.file_io import FileIO
from lakecore.fs.resolve import plain_path
from lakecore.metadata.schema import TableSchema
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.types.datatypes import DataField

__all__ = [
    "PATH",
    "ChooseSchema",
    "check_directory",
    "check_parents",
    "check_place",
    "external_path",
    "new_external_schema",
    "publish_external",
]

PATH = "path"
"""It is the option of a table that makes it external."""

_ABSOLUTE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/[^\x00-\x1f\x7f]*")
_ODD = re.compile(r"(?:^|/)\.\.?(?:/|$)")
_OWNER = "owner"
_SCHEMA_DIRECTORY = "schema"

ChooseSchema = Callable[[TableSchema | None], TableSchema]
"""It chooses the schema of a new table by the one that its directory has, or None."""


def external_path(location: str) -> str:
    """Return the plain path of a new external table. Raises InvalidOptionError for a location that is not
    absolute or contains `.` or `..`, UnsupportedError for storage that lakecore does not have.
    """
    scheme, mark, rest = location.partition("://")
    if not _ABSOLUTE.fullmatch(location) or _ODD.search(location) or "//" in (rest if mark else scheme):
        raise InvalidOptionError(
            f"option {PATH}={location!r}: write an absolute path or an address, without . and .. and //"
        )
    return plain_path(location)


def check_place(path: str, places: Mapping[str, str]) -> None:
    """Raise InvalidOptionError for a path that overlaps one of these places, which are plain paths with what
    is there.
    """
    for place, what in places.items():
        if place and (path == place or is_below(path, place) or is_below(place, path)):
            raise InvalidOptionError(
                f"option {PATH}={path}: {what} is at {place}; leave the option out, or choose a directory "
                "that does not overlap it"
            )


def check_directory(file_io: FileIO, path: str, root: str | None) -> None:
    """Raise InvalidOptionError for a directory within another table, and for one that has files but no table:
    the clean-up of one table would remove files of the other.

    Parents are looked at up to `root`, or all of them (None). It costs a listing a parent, and two more.
    """
    check_parents(file_io, path, root)
    if SchemaStore(file_io, TablePaths(path)).list_ids():
        return
    others = [one.name for one in file_io.list(path) if not (one.is_dir and one.name == _SCHEMA_DIRECTORY)]
    if others:
        raise InvalidOptionError(
            f"option {PATH}={path}: the directory has {others[0]!r} but no table; choose an empty directory"
        )


def check_parents(file_io: FileIO, path: str, root: str | None) -> None:
    """Raise InvalidOptionError for a directory within another table. Parents are looked at up to `root`, or
    all of them (None). It costs a listing a parent.
    """
    for parent in _parents(path, root):
        if SchemaStore(file_io, TablePaths(parent)).list_ids():
            raise InvalidOptionError(
                f"option {PATH}={path}: the table at {parent} has this directory; choose one outside of it"
            )


def new_external_schema(
    name: str, definition: TableDefinition, defaults: Mapping[str, str], clock: Clock
) -> ChooseSchema:
    """Return the choice of the schema of a new external table: the one that its path has, if the definition
    agrees with it, else the first one of the definition, with the `defaults` of the catalog and the option
    `path`. A definition without columns takes the schema that is there. It raises InvalidInputError,
    InvalidOptionError, and AlreadyExistsError for a definition that differs from the table that is there.
    """
    path = definition.options[PATH].rstrip("/")
    own = replace(definition, options={key: one for key, one in definition.options.items() if key != PATH})

    def choose(existing: TableSchema | None) -> TableSchema:
        if existing is not None:
            _check_agreement(name, path, own, existing)
            return existing
        if not definition.columns:
            raise InvalidInputError(f"table {name!r}: no table is at {path}, so the definition needs columns")
        schema = first_schema(with_table_defaults(own, defaults), clock.now_ms())
        return replace(schema, options={**schema.options, PATH: path})

    return choose


def publish_external(
    choose: ChooseSchema, store: SchemaStore, check: Callable[[TableSchema], None]
) -> TableSchema:
    """Publish the schema of a new external table where none is, and return the one that is there then.

    `check` raises for one that the catalog cannot enter, before anything is written. Raises the errors of
    `choose`, CommitConflictError when others change the directory at the same time.
    """
    existing = store.latest()
    schema = choose(existing)
    check(schema)
    if existing is not None or store.publish(schema):
        return schema
    existing = store.latest()
    if existing is None:
        raise CommitConflictError(f"{store.paths.schema_dir} is changed by somebody else; try again")
    return choose(existing)


def _check_agreement(name: str, path: str, own: TableDefinition, existing: TableSchema) -> None:
    options, keys = own.options, (own.primary_keys, own.partition_keys)
    same = True
    if own.columns:
        new = first_schema(own, 0)
        options, keys = new.options, (new.primary_keys, new.partition_keys)
        same = _without_ids(new.fields) == _without_ids(existing.fields)
    here = existing.primary_keys, existing.partition_keys
    if not same or any(one and one != other for one, other in zip(keys, here, strict=True)):
        raise AlreadyExistsError(
            f"table {name!r}: {path} has a table with other columns or keys; leave columns and keys out to "
            "take those, or choose another path"
        )
    for key, value in options.items():
        if key != _OWNER and existing.options.get(key) != value:
            raise AlreadyExistsError(
                f"table {name!r}: the table at {path} has {key}={existing.options.get(key)}, not {value}; "
                "leave the option out, and change it with alter"
            )


def _parents(path: str, root: str | None) -> Iterator[str]:
    parent = path.rpartition("/")[0]
    while parent and not parent.endswith(("/", ":")) and (root is None or is_below(parent, root)):
        yield parent
        parent = parent.rpartition("/")[0]


def _without_ids(fields: tuple[DataField, ...]) -> tuple[DataField, ...]:
    return tuple(numbered_column(one, lambda: 0) for one in fields)
