"""This module has what a catalog with a server copies from a schema (`sync-all-properties`). It is pure."""

from __future__ import annotations

from lakecore.metadata.schema import TableSchema

__all__ = ["copied_properties"]


def copied_properties(schema: TableSchema) -> dict[str, str]:
    """Return the options of a schema, and its keys as options, as Java copies them into a metastore."""
    keys = {
        "primary-key": schema.primary_keys,
        "partition": schema.partition_keys,
        "bucket-key": schema.bucket_keys,
    }
    return {**schema.options, **{key: ",".join(names) for key, names in keys.items() if names}}
