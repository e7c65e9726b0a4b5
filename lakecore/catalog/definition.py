"""This module defines a new table, with the checks that turn it into `schema-0`. It does no IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import count
from typing import Any

import pyarrow as pa

from lakecore.catalog.column_text import parse_column, parse_type_text
from lakecore.catalog.field_ids import numbered_column
from lakecore.catalog.option_change import is_on
from lakecore.catalog.validation import check_columns, check_keys, check_schema
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, InvalidOptionError, UnsupportedError
from lakecore.metadata.option_rules.checks import check_new_option
from lakecore.metadata.schema import TableSchema
from lakecore.options import option_texts, parse_list
from lakecore.scan.support import TABLE_TYPES
from lakecore.types.arrow import row_type_from_arrow
from lakecore.types.datatypes import DataField, parse_type, with_nullable

__all__ = ["TableDefinition", "columns_from_json", "first_schema"]

_EMPTY: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """The columns (ids are assigned later), keys and options of a table to be created."""

    columns: tuple[DataField, ...]
    """It has name, type and comment of each column."""
    primary_keys: tuple[str, ...] = ()
    """These are the columns of the primary key, which includes the partition columns; empty for an append
    table.
    """
    partition_keys: tuple[str, ...] = ()
    """These are the partition columns, outermost first."""
    options: Mapping[str, str] = field(default_factory=dict)
    """These are options of Paimon, stored with the schema."""
    comment: str | None = None
    """It says what the table is for; None without one."""

    @classmethod
    def from_arrow(
        cls,
        schema: pa.Schema,
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] = _EMPTY,
    ) -> TableDefinition:
        """Take the columns of an Arrow schema. Raises InvalidInputError for a type the format lacks and
        for keys that are no sequence of names, InvalidOptionError.
        """
        return cls(
            columns=row_type_from_arrow(schema).fields,
            primary_keys=_key_names("primary_keys", primary_keys),
            partition_keys=_key_names("partition_keys", partition_keys),
            options=option_texts(options),
        )

    @classmethod
    def of(
        cls,
        definition: TableDefinition | pa.Schema | Mapping[str, Any],
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> TableDefinition:
        """Return a definition that is one, is its JSON, or an Arrow schema, to which keys and options belong.

        Raises as `from_arrow` and `from_json`; InvalidInputError for keys or options beside a definition that
        has its own, and for anything else.
        """
        if isinstance(definition, pa.Schema):
            return cls.from_arrow(
                definition, primary_keys=primary_keys, partition_keys=partition_keys, options=options or {}
            )
        if not isinstance(definition, (Mapping, TableDefinition)):
            raise InvalidInputError(
                f"a table is not defined by a {type(definition).__name__}; write an Arrow schema, a "
                'TableDefinition or {"columns": ["k INT NOT NULL"], "primaryKeys": ["k"], "options": {}}'
            )
        arguments = {"primary_keys": primary_keys, "partition_keys": partition_keys, "options": options}
        for name, value in arguments.items():
            if value:
                raise InvalidInputError(
                    f"{name} is an argument for an Arrow schema only; write it into the definition, which "
                    "has keys and options of its own (primaryKeys, partitionKeys, options)"
                )
        return cls.from_json(definition) if isinstance(definition, Mapping) else definition

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> TableDefinition:
        """Parse `{"columns": ["k BIGINT NOT NULL", {"name": …, "type": …}], "primaryKeys": ["k"], "options":
        {}}`.

        Raises InvalidInputError naming what is wrong.
        """
        known_keys = {"columns", "fields", "primaryKeys", "partitionKeys", "options", "comment"}
        if unknown := sorted(set(raw) - known_keys):
            raise InvalidInputError(
                f"schema: unknown key {unknown[0]!r}; the known keys are {', '.join(sorted(known_keys))}"
            )
        columns = raw.get("columns", raw.get("fields"))
        options = option_texts(raw.get("options") or {})
        if (columns is None and "path" in options) or (not columns and options.get("type") == "object-table"):
            columns = []  # those of the table that is there, or of its type
        elif not isinstance(columns, list) or not columns:
            raise InvalidInputError('schema: "columns" must be a list such as ["k BIGINT NOT NULL"]')
        return cls(
            columns=tuple(_column(column) for column in columns),
            primary_keys=_names(raw, "primaryKeys"),
            partition_keys=_names(raw, "partitionKeys"),
            options=options,
            comment=raw.get("comment"),
        )


def columns_from_json(raw: Any) -> tuple[DataField, ...]:
    """Parse columns that belong to no table, numbered from 0, as `TableDefinition.from_json` does. Raises
    InvalidInputError, also for names that are empty or appear twice.
    """
    if not isinstance(raw, list | tuple) or not raw:
        raise InvalidInputError(f'columns {raw!r}: write a list such as ["k BIGINT NOT NULL"]')
    columns = tuple(_column(column) for column in raw)
    names = [column.name for column in columns]
    if not all(name.strip() for name in names) or len(set(names)) < len(names):
        raise InvalidInputError(f"columns {', '.join(names)}: each needs a name of its own")
    ids = count()
    return tuple(numbered_column(column, lambda: next(ids)) for column in columns)


def first_schema(definition: TableDefinition, time_millis: int) -> TableSchema:
    """Build `schema-0` of a table: field ids are assigned, key columns become NOT NULL, key options become
    keys.

    Raises InvalidInputError or InvalidOptionError naming the invalid column, key or option, UnsupportedError
    for a type of table that this release does not create, for a path of its own and for auto-create=true.
    """
    options = dict(definition.options)
    primary = _keys(definition.primary_keys, options, "primary-key")
    partition = _keys(definition.partition_keys, options, "partition")
    _check_place(options)
    for key, value in options.items():
        check_new_option(key, value)
    kind = options.get("type", TABLE_TYPES[0])
    if kind.strip().lower() not in TABLE_TYPES:
        raise UnsupportedError(
            f"option type={kind}: this release creates only tables of the types "
            f"{' and '.join(TABLE_TYPES)}; leave "
            "the option out, or create this table with the engine that reads it"
        )
    for key in ("scan.fallback-branch", "scan.primary-branch"):
        if options.get(key, "").strip():
            raise InvalidOptionError(
                f"option {key}={options[key]}: a new table has no branches; set the option later with alter"
            )
    check_columns(definition.columns)
    check_keys(definition.columns, primary, "primary key")
    check_keys(definition.columns, partition, "partition key")
    ids = count()
    fields = tuple(numbered_column(column, lambda: next(ids)) for column in definition.columns)
    fields = tuple(
        replace(column, type=with_nullable(column.type, False)) if column.name in primary else column
        for column in fields
    )
    schema = TableSchema(
        id=0,
        fields=fields,
        highest_field_id=next(ids) - 1,
        partition_keys=tuple(partition),
        primary_keys=tuple(primary),
        options=options,
        comment=definition.comment,
        time_millis=time_millis,
    )
    check_schema(schema)
    return schema


def _check_place(options: Mapping[str, str]) -> None:
    """Refuse what Paimon refuses too: external tables of other catalogs, and tables made by readers."""
    if "path" in options:
        raise UnsupportedError(
            f"option path={options['path']}: only catalogs of Hive and REST have external tables; leave the "
            "option out"
        )
    if is_on(options, "auto-create"):
        raise UnsupportedError("option auto-create=true: create the table first, and leave the option out")


def _keys(argument: tuple[str, ...], options: dict[str, str], key: str) -> tuple[str, ...]:
    text = options.pop(key, None)
    if text is not None and argument:
        raise InvalidOptionError(
            f"option {key}={text}: the definition also has its own keys; specify them only once"
        )
    return argument or parse_list(text or "")


def _column(raw: Any) -> DataField:
    if isinstance(raw, str):
        name, kind = parse_column(raw)
        return DataField(0, name, kind)
    try:
        text = raw["type"]
        kind = parse_type_text(text) if isinstance(text, str) else parse_type(text)
        default = raw.get("defaultValue")
        return DataField(0, str(raw["name"]), kind, raw.get("comment", raw.get("description")), default)
    except (KeyError, TypeError, AttributeError, ValueError) as err:
        raise InvalidInputError(f'column {raw!r}: write "NAME TYPE" or {{"name": …, "type": …}}') from err


def _names(raw: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return _key_names(key, raw.get(key) or [])


def _key_names(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise InvalidInputError(f"schema: {key!r} must be a list of column names, not {value!r}")
    return tuple(value)
