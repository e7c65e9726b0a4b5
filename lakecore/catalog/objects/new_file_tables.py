"""This module makes the schemas of new format tables and object tables. It is pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count

from lakecore.catalog.definition import TableDefinition
from lakecore.catalog.field_ids import numbered_column
from lakecore.catalog.objects.external_tables import ChooseSchema
from lakecore.catalog.validation import check_columns, check_keys
from lakecore.errors import AlreadyExistsError, InvalidInputError, InvalidOptionError, UnsupportedError
from lakecore.metadata.schema import TableSchema
from lakecore.read.directory.format_table import FORMAT_TABLE
from lakecore.read.directory.rules import FormatRules
from lakecore.system.object_table import OBJECT_TABLE, object_columns

__all__ = ["file_table_schema", "format_defaults", "new_external_objects", "stored_object_schema"]

_OBJECT_OPTIONS = ("type", "path")
_FORMAT_OPTIONS = (*_OBJECT_OPTIONS, "file.format", "file.compression", "partition.default-name")
_FORMAT_PREFIXES = ("csv.", "json.", "text.", "parquet.", "orc.", "format-table.")


def file_table_schema(name: str, definition: TableDefinition, time_millis: int) -> TableSchema | None:
    """Return the schema of a new table without snapshots; None for a definition of another type.

    A format table must be one that lakecore can read. Raises InvalidInputError for columns and keys that it
    cannot have, InvalidOptionError for options without effect, UnsupportedError for those that cannot be
    obeyed.
    """
    kind = definition.options.get("type", "").strip().lower()
    if kind not in (FORMAT_TABLE, OBJECT_TABLE):
        return None
    definition = replace(definition, options={**definition.options, "type": kind})
    if definition.primary_keys or "primary-key" in definition.options:
        raise InvalidInputError(f"table {name!r}: a table of type={kind} has no primary key")
    if kind == OBJECT_TABLE:
        return _object_schema(name, definition, time_millis)
    for key in definition.options:
        if key not in _FORMAT_OPTIONS and not key.startswith(_FORMAT_PREFIXES):
            raise _without_effect(name, key, kind)
    check_columns(definition.columns)
    check_keys(definition.columns, definition.partition_keys, "partition key")
    if len(definition.partition_keys) == len(definition.columns):
        raise InvalidInputError(f"table {name!r}: a format table needs a column that is no partition key")
    ids = count()
    fields = tuple(numbered_column(column, lambda: next(ids)) for column in definition.columns)
    schema = TableSchema(
        id=0,
        fields=fields,
        highest_field_id=next(ids) - 1,
        partition_keys=definition.partition_keys,
        primary_keys=(),
        options=definition.options,
        comment=definition.comment,
        time_millis=time_millis,
    )
    FormatRules.of(name, schema)
    return schema


def format_defaults(defaults: Mapping[str, str]) -> dict[str, str]:
    """Return those of a catalog's options of new tables that have an effect on format tables."""
    keys = ("file.format", "file.compression", "partition.default-name")
    return {key: value for key, value in defaults.items() if key in keys or key.startswith(_FORMAT_PREFIXES)}


def stored_object_schema(
    name: str, definition: TableDefinition, path: str, time_millis: int
) -> TableSchema | None:
    """Return the schema of a new object table whose schema is a file below `path`; None for a definition of
    another type. It raises as `file_table_schema`, and UnsupportedError for a path of its own.
    """
    if definition.options.get("type", "").strip().lower() != OBJECT_TABLE:
        return None
    if "path" in definition.options:
        raise UnsupportedError(
            f"table {name!r}: option path={definition.options['path']}: an object table lists the directory "
            "in which the catalog puts it; leave the option out"
        )
    schema = file_table_schema(name, definition, time_millis)
    assert schema is not None  # it is of that type
    fields = object_columns()
    options = {**schema.options, "path": path}
    return replace(schema, fields=fields, highest_field_id=len(fields) - 1, options=options)


def new_external_objects(name: str, definition: TableDefinition, time_millis: int) -> ChooseSchema:
    """Return the choice of the schema of a new object table with the option `path`: the first one of the
    definition, or the same one that is there. It raises AlreadyExistsError for another one, and as
    `file_table_schema`.
    """
    path = definition.options["path"].rstrip("/")
    own = {key: value for key, value in definition.options.items() if key != "path"}

    def choose(existing: TableSchema | None) -> TableSchema:
        schema = stored_object_schema(name, replace(definition, options=own), path, time_millis)
        assert schema is not None  # it is of that type
        if existing is None:
            return schema
        if (existing.options, existing.comment) != (schema.options, schema.comment):
            raise AlreadyExistsError(
                f"table {name!r}: {path} has the schema of another table; choose another directory"
            )
        return existing

    return choose


def _object_schema(name: str, definition: TableDefinition, time_millis: int) -> TableSchema:
    if definition.columns or definition.partition_keys:
        raise InvalidInputError(
            f"table {name!r}: an object table has columns of its own; leave out columns and keys"
        )
    for key in definition.options:
        if key not in _OBJECT_OPTIONS:
            raise _without_effect(name, key, OBJECT_TABLE)
    if not definition.options.get("path", "x").strip():
        raise UnsupportedError(f"table {name!r}: option path is empty")
    return TableSchema(
        id=0,
        fields=(),
        highest_field_id=-1,
        partition_keys=(),
        primary_keys=(),
        options=definition.options,
        comment=definition.comment,
        time_millis=time_millis,
    )


def _without_effect(name: str, key: str, kind: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"table {name!r}: option {key} has no effect on a table of type={kind}; leave it out"
    )
