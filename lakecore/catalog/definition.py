"""What a new table shall be, and the checks before it is: from a definition to `schema-0`. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pyarrow as pa

from lakecore.catalog.column_text import parse_column, parse_type_text
from lakecore.errors import InvalidInputError, InvalidOptionError
from lakecore.metadata.options import BucketMode, ChangelogProducer, TableOptions
from lakecore.metadata.row_kind import KEY_PREFIX, KIND_NAME, SEQUENCE_NAME
from lakecore.metadata.schema import TableSchema
from lakecore.options import parse_list
from lakecore.types.arrow import row_type_from_arrow
from lakecore.types.datatypes import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    parse_type,
    with_nullable,
)

__all__ = ["TableDefinition", "first_schema"]

_RESERVED = frozenset({SEQUENCE_NAME, KIND_NAME, "_LEVEL", "_ROW_ID", "rowkind", "_kind", "_bucket"})
_EMPTY: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """Columns (ids are given later), keys and options of a table to be made."""

    columns: tuple[DataField, ...]
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    @classmethod
    def from_arrow(
        cls,
        schema: pa.Schema,
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] = _EMPTY,
    ) -> TableDefinition:
        """Columns as an Arrow schema has them. Raises InvalidInputError for a type the format lacks."""
        return cls(
            columns=row_type_from_arrow(schema).fields,
            primary_keys=tuple(primary_keys),
            partition_keys=tuple(partition_keys),
            options=dict(options),
        )

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> TableDefinition:
        """`{"columns": ["k BIGINT NOT NULL", {"name": …, "type": …}], "primaryKeys": ["k"], "options": {}}`.

        Raises InvalidInputError naming what is wrong.
        """
        known = {"columns", "fields", "primaryKeys", "partitionKeys", "options", "comment"}
        if unknown := sorted(set(raw) - known):
            raise InvalidInputError(
                f"schema: unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}"
            )
        columns = raw.get("columns", raw.get("fields"))
        if not isinstance(columns, list) or not columns:
            raise InvalidInputError('schema: "columns" must be a list such as ["k BIGINT NOT NULL"]')
        return cls(
            columns=tuple(_column(column) for column in columns),
            primary_keys=_names(raw, "primaryKeys"),
            partition_keys=_names(raw, "partitionKeys"),
            options={str(key): _option_text(value) for key, value in (raw.get("options") or {}).items()},
            comment=raw.get("comment"),
        )


def first_schema(definition: TableDefinition, time_millis: int) -> TableSchema:
    """`schema-0` of a table: field ids given, key columns never null, keys taken out of the options.

    Raises InvalidInputError or InvalidOptionError naming the column, key or option that cannot be.
    """
    options = dict(definition.options)
    primary = definition.primary_keys or parse_list(options.pop("primary-key", ""))
    partition = definition.partition_keys or parse_list(options.pop("partition", ""))
    for key in ("primary-key", "partition", "path"):
        options.pop(key, None)
    _check_columns(definition.columns)
    _check_keys(definition.columns, primary, "primary key")
    _check_keys(definition.columns, partition, "partition key")
    ids = count()
    fields = tuple(_numbered(column, ids, outer_first=True) for column in definition.columns)
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
    _check_options(schema)
    return schema


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
    value = raw.get(key) or []
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InvalidInputError(f"schema: {key!r} must be a list of column names, not {value!r}")
    return tuple(value)


def _option_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _numbered(column: DataField, ids: Iterator[int], *, outer_first: bool) -> DataField:
    """Rule of ids: a column takes its own before its parts do, a field of a nested row after."""
    if outer_first:
        own = next(ids)
        return replace(column, id=own, type=_numbered_type(column.type, ids))
    kind = _numbered_type(column.type, ids)
    return replace(column, id=next(ids), type=kind)


def _numbered_type(kind: DataType, ids: Iterator[int]) -> DataType:
    match kind:
        case RowType():
            return replace(kind, fields=tuple(_numbered(f, ids, outer_first=False) for f in kind.fields))
        case ArrayType() | MultisetType() | VectorType():
            return replace(kind, element=_numbered_type(kind.element, ids))
        case MapType():
            key = _numbered_type(kind.key, ids)
            return replace(kind, key=key, value=_numbered_type(kind.value, ids))
        case AtomicType():
            return kind


def _check_columns(columns: Sequence[DataField]) -> None:
    if not columns:
        raise InvalidInputError("a table needs at least one column")
    seen: set[str] = set()
    for column in columns:
        if not column.name.strip():
            raise InvalidInputError("a column needs a name")
        if column.name in _RESERVED or column.name.startswith(KEY_PREFIX):
            raise InvalidInputError(f"column {column.name!r}: the format reserves this name; choose another")
        if column.name in seen:
            raise InvalidInputError(f"column {column.name!r} is there twice")
        seen.add(column.name)


def _check_keys(columns: Sequence[DataField], names: Sequence[str], what: str) -> None:
    kinds = {column.name: column.type for column in columns}
    for position, name in enumerate(names):
        if name not in kinds:
            raise InvalidInputError(f"{what} {name!r} is not a column; there are {', '.join(kinds)}")
        if not isinstance(kinds[name], AtomicType):
            raise InvalidInputError(f"{what} {name!r}: a column of a nested type cannot be a key")
        if name in names[:position]:
            raise InvalidInputError(f"{what} {name!r} is named twice")


def _check_options(schema: TableSchema) -> None:
    options = TableOptions.from_schema(schema)
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise InvalidInputError(
            "the primary key has partition columns only; add a column that tells rows of a partition apart"
        )
    _check_bucket(schema, options)
    names = set(schema.row_type.names)
    for name in (*options.sequence_fields, *filter(None, (options.rowkind_field,))):
        if name not in names:
            raise InvalidOptionError(f"option sequence.field or rowkind.field: {name!r} is not a column")
    if not schema.primary_keys and options.changelog_producer is not ChangelogProducer.NONE:
        raise InvalidOptionError("option changelog-producer: only tables with a primary key have one")
    if not schema.primary_keys and options.sequence_fields:
        raise InvalidOptionError("option sequence.field: only tables with a primary key have one")


def _check_bucket(schema: TableSchema, options: TableOptions) -> None:
    given = parse_list(schema.options.get("bucket-key", ""))
    for name in given:
        if name not in schema.row_type.names:
            raise InvalidOptionError(f"option bucket-key={','.join(given)}: {name!r} is not a column")
        if name in schema.partition_keys:
            raise InvalidOptionError(f"option bucket-key: {name!r} is a partition column")
        if schema.primary_keys and name not in schema.primary_keys:
            raise InvalidOptionError(f"option bucket-key: {name!r} is not part of the primary key")
    if options.bucket_mode is BucketMode.HASH_FIXED and not schema.bucket_keys:
        raise InvalidOptionError(
            f"option bucket={options.bucket}: a table without primary key needs bucket-key, or bucket=-1"
        )
    if options.bucket_mode is BucketMode.BUCKET_UNAWARE and given:
        raise InvalidOptionError("option bucket-key: of no use with bucket=-1; give bucket a number")
