"""This module has the options of a table that say which partitions a metastore knows."""

from __future__ import annotations

from lakecore.errors import UnsupportedError
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool

__all__ = ["TAG_FIELD", "check_unset", "is_partitioned_in_metastore"]

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


def check_unset(name: str, new: TableSchema, old: TableSchema | None = None) -> None:
    """Refuse to set one of the options: commits and tags of lakecore do not change the partitions of the
    metastore, so that queries of Hive would miss some. A table that Java made with them keeps them.

    Raises UnsupportedError.
    """
    for option in (_PARTITIONED, TAG_FIELD):
        if option.read(new.options) and (old is None or not option.read(old.options)):
            raise UnsupportedError(
                f"table {name}: option {option.key}: lakecore does not keep the partitions of a metastore in "
                "step with its commits; leave the option out, and let Paimon's engines read the table"
            )
