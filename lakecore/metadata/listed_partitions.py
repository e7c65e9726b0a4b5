"""This module has the options of a table that say which partitions its catalog lists, and the texts of
partitions there. It is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_spec
from lakecore.types.datatypes import RowType

__all__ = [
    "PARTITIONED",
    "TAG_FIELD",
    "has_listed_partitions",
    "listed_columns",
    "partition_texts",
    "spec_texts",
]

PARTITIONED = Option(
    "metastore.partitioned-table", parse_bool, False, "Whether the catalog lists the table's partitions."
)
TAG_FIELD: Option[str | None] = Option(
    "metastore.tag-to-partition",
    str.strip,
    None,
    "The column by which a Hive metastore shows tags as partitions.",
)


def has_listed_partitions(schema: TableSchema) -> bool:
    """Return whether the catalog is to list the partitions of the table."""
    return bool(schema.partition_keys) and PARTITIONED.read(schema.options)


def listed_columns(schema: TableSchema) -> tuple[str, ...]:
    """Return the columns of the partitions that a metastore lists: those of the table, or the one of its
    tags; empty without either option.
    """
    if has_listed_partitions(schema):
        return schema.partition_keys
    field = TAG_FIELD.read(schema.options)
    return (field,) if field else ()


def partition_texts(partitions: Iterable[bytes], schema: TableSchema) -> list[dict[str, str]]:
    """Return the texts of serialised partitions by column, as Java's catalogs list them."""
    row_type, options = schema.partition_type, TableOptions.from_schema(schema)
    default, legacy = options.partition_default_name, options.partition_legacy_name
    return [partition_spec(decode_row(one, row_type), row_type, default, legacy) for one in partitions]


def spec_texts(specs: Sequence[Mapping[str, Any]], schema: TableSchema) -> list[dict[str, str]]:
    """Return the texts of specifications: internal values of some partition columns, or all. They are in the
    order of the columns.
    """
    options = TableOptions.from_schema(schema)
    default, legacy = options.partition_default_name, options.partition_legacy_name
    texts = []
    for spec in specs:
        row_type = RowType(tuple(field for field in schema.partition_type.fields if field.name in spec))
        values = [spec[name] for name in row_type.names]
        texts.append(partition_spec(values, row_type, default, legacy))
    return texts
