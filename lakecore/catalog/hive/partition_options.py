"""This module has the options of a table that say which partitions a metastore knows."""

from __future__ import annotations

from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool

__all__ = ["TAG_FIELD", "is_partitioned_in_metastore"]

_PARTITIONED = Option(
    "metastore.partitioned-table", parse_bool, False, "Whether the metastore knows the table's partitions."
)
TAG_FIELD: Option[str | None] = Option(
    "metastore.tag-to-partition",
    str.strip,
    None,
    "The column by which the metastore shows tags as partitions.",
)


def is_partitioned_in_metastore(schema: TableSchema) -> bool:
    """Return whether the entry of the table has its partition columns."""
    return bool(schema.partition_keys) and _PARTITIONED.read(schema.options)
