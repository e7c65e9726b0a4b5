"""This module has the rules for every schema, of a new or an altered table: columns, keys, buckets, options.
Pure.

They are the rules by which Paimon 1.4 and 2.0 refuse a table, so that no table is created here that they
would not open.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from lakecore.catalog.dedicated_column_rules import check_dedicated_columns
from lakecore.catalog.map_rules import check_map_layouts
from lakecore.catalog.option_rules import check_option_rules
from lakecore.catalog.scan_rules import check_scan_rules
from lakecore.errors import InvalidInputError, InvalidOptionError, UnsupportedError
from lakecore.format.row.layout import check_row_files
from lakecore.format.variant.shredder import check_inference
from lakecore.index.definition import index_specs
from lakecore.merge.engines.choice import engine_of
from lakecore.metadata.dedicated_columns import DedicatedColumns
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.metadata.row_kind import KEY_PREFIX, KIND_NAME, SEQUENCE_NAME
from lakecore.metadata.schema import TableSchema
from lakecore.options import parse_list
from lakecore.read.columns.default_value import check_default
from lakecore.types.datatypes import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)
from lakecore.types.sql import type_text
from lakecore.write.options import FileRules

__all__ = ["check_columns", "check_keys", "check_schema"]

_RESERVED = frozenset({SEQUENCE_NAME, KIND_NAME, "_LEVEL", "_ROW_ID", "rowkind", "_kind", "_bucket"})
_NO_KEYS = (TypeRoot.VARIANT, TypeRoot.BLOB)
_AVRO_DIGITS = 6


def check_schema(schema: TableSchema) -> None:
    """Raise InvalidInputError or InvalidOptionError naming the invalid column, key or option.

    Raises UnsupportedError for formats that this release does not write.
    """
    check_columns(schema.fields)
    check_keys(schema.fields, schema.primary_keys, "primary key")
    check_keys(schema.fields, schema.partition_keys, "partition key")
    check_keys(schema.fields, parse_list(schema.options.get("upsert-key", "")), "upsert key")
    options = TableOptions.from_schema(schema)
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise InvalidInputError(
            "the primary key has partition columns only; add a column that identifies rows within a partition"
        )
    _check_bucket(schema, options)
    check_scan_rules(schema)
    check_option_rules(schema, options)
    _check_engine(schema, options)
    check_dedicated_columns(schema, options)
    _check_formats(schema, options)
    check_map_layouts(schema, options)
    check_inference(schema.options)
    index_specs(schema)


def check_columns(columns: Sequence[DataField]) -> None:
    """Check names and defaults. Raises InvalidInputError naming the column."""
    if not columns:
        raise InvalidInputError("a table needs at least one column")
    names: set[str] = set()
    for column in columns:
        if not column.name.strip():
            raise InvalidInputError("a column needs a name")
        if column.name in _RESERVED or column.name.startswith(KEY_PREFIX):
            raise InvalidInputError(f"column {column.name!r}: the format reserves this name; choose another")
        if column.name in names:
            raise InvalidInputError(f"column {column.name!r} appears twice")
        names.add(column.name)
        check_default(column)


def check_keys(columns: Sequence[DataField], names: Sequence[str], what: str) -> None:
    """Check that keys are columns of atomic types, each once. Raises InvalidInputError naming the key."""
    kinds = {column.name: column.type for column in columns}
    for position, name in enumerate(names):
        if name not in kinds:
            raise InvalidInputError(f"{what} {name!r} is not a column; the columns are {', '.join(kinds)}")
        if not _is_key_type(kinds[name]):
            raise InvalidInputError(
                f"{what} {name!r}: a column of type {type_text(kinds[name])} cannot be a key"
            )
        if name in names[:position]:
            raise InvalidInputError(f"{what} {name!r} is named twice")


def _is_key_type(data_type: DataType) -> bool:
    """Return whether values of this type have an order and a hash, as keys need them."""
    return isinstance(data_type, AtomicType) and data_type.root not in _NO_KEYS


def _check_bucket(schema: TableSchema, options: TableOptions) -> None:
    keys = parse_list(schema.options.get("bucket-key", ""))
    for name in keys:
        if name not in schema.row_type.names:
            raise InvalidOptionError(f"option bucket-key={','.join(keys)}: {name!r} is not a column")
        if name in schema.partition_keys:
            raise InvalidOptionError(f"option bucket-key: {name!r} is a partition column")
        if schema.primary_keys and name not in schema.primary_keys:
            raise InvalidOptionError(f"option bucket-key: {name!r} is not part of the primary key")
        if not _is_key_type(kind := schema.row_type.field(name).type):
            raise InvalidOptionError(
                f"option bucket-key: {name!r} is {type_text(kind)}; values of this type cannot be a key"
            )
    if options.bucket_mode is BucketMode.HASH_FIXED and not schema.bucket_keys:
        raise InvalidOptionError(
            f"option bucket={options.bucket}: a table without primary key needs bucket-key, or bucket=-1"
        )
    if options.bucket == -1 and "bucket-key" in schema.options:
        raise InvalidOptionError("option bucket-key: it has no effect with bucket=-1; set bucket to a number")


def _check_engine(schema: TableSchema, options: TableOptions) -> None:
    """Check the merge engine. Functions that only other engines have do not prevent the table."""
    if schema.primary_keys:
        with suppress(UnsupportedError):
            engine_of("to be made", schema, options)


def _check_formats(schema: TableSchema, options: TableOptions) -> None:
    """Check the format of every level, and the types that it can hold; likewise that of vector files."""
    formats = {FileRules.of(schema.options, level).format for level in {0, *_levels(schema)}}
    if "row" in formats | {FileRules.of(schema.options, 0, changelog=True).format}:
        check_row_files(schema)
    dedicated = DedicatedColumns.of(schema.row_type, schema.options, options.target_file_size)
    places = [(kind, dedicated.ordinary) for kind in sorted(formats)]
    if dedicated.vectors:
        rules = FileRules.of(schema.options, 0).with_format(dedicated.vector_format)
        places.append((rules.format, dedicated.vectors))
    for kind, names in places:
        for column in map(schema.row_type.field, names):
            if (problem := _problem(column.type, kind)) is not None:
                raise InvalidInputError(f"column {column.name}: {problem} cannot be stored in {kind} files")


def _levels(schema: TableSchema) -> tuple[int, ...]:
    """Return the levels that have a format of their own."""
    parts = parse_list(schema.options.get("file.format.per.level", ""))
    return tuple(int(level) for part in parts if (level := part.partition(":")[0].strip()).isdigit())


def _problem(data_type: DataType, file_format: str) -> str | None:
    match data_type:
        case VectorType() if file_format == "orc":
            return "VECTOR"
        case AtomicType():
            return _atomic_problem(data_type, file_format)
        case ArrayType() | MultisetType() | VectorType():
            return _problem(data_type.element, file_format)
        case MapType():
            return _problem(data_type.key, file_format) or _problem(data_type.value, file_format)
        case RowType():
            return next(filter(None, (_problem(f.type, file_format) for f in data_type.fields)), None)


def _atomic_problem(data_type: AtomicType, file_format: str) -> str | None:
    timestamp = data_type.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
    if file_format == "avro" and timestamp and data_type.precision > _AVRO_DIGITS:
        return str(data_type)
    if file_format == "orc" and data_type.root is TypeRoot.VARIANT:
        return str(data_type)
    return None
