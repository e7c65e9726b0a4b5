"""This module has the rules for options of a table that say which partitions a metastore knows."""

from __future__ import annotations

from lakecore.errors import UnsupportedError
from lakecore.metadata.listed_partitions import PARTITIONED, TAG_FIELD, listed_columns
from lakecore.metadata.schema import TableSchema

__all__ = ["check_partition_options"]

_PREVIEW = f"{TAG_FIELD.key}.preview"


def check_partition_options(name: str, new: TableSchema, old: TableSchema | None = None) -> None:
    """Raise UnsupportedError for tags that are shown before they exist, and for a change of the partition
    columns of an entry, which no metastore makes. What a table has already may stay.
    """
    preview = new.options.get(_PREVIEW, "none").strip()
    if preview != "none" and (old is None or old.options.get(_PREVIEW) != new.options[_PREVIEW]):
        raise UnsupportedError(
            f"table {name}: option {_PREVIEW}={preview}: lakecore lists tags when they exist, not before; "
            "leave the option out"
        )
    if old is not None and listed_columns(old) != listed_columns(new):
        raise UnsupportedError(
            f"table {name}: options {PARTITIONED.key} and {TAG_FIELD.key}: a metastore does not change the "
            "partition columns of a table; create a table with them"
        )
