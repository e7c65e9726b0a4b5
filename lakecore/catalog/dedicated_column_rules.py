"""This module has the rules of the format for columns in dedicated files: BLOB, and VECTOR with
vector.file.format. Pure.
"""

from __future__ import annotations

from collections.abc import Set

from lakecore.errors import InvalidInputError, InvalidOptionError, UnsupportedError
from lakecore.format.blob.lists import key_codec
from lakecore.metadata.dedicated_columns import (
    DedicatedColumns,
    descriptor_columns,
    holds_blobs,
    is_blob,
    managed_columns,
    view_columns,
)
from lakecore.metadata.options import ChangelogProducer, MergeEngine, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.types.datatypes import ArrayType, DataType, MapType, MultisetType, RowType, VectorType

__all__ = ["check_dedicated_columns"]


def check_dedicated_columns(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidInputError or InvalidOptionError naming the invalid column or option, UnsupportedError for
    BLOB where this release does not write it.
    """
    blobs = {field.name for field in schema.fields if _has_blob(field.type)}
    dedicated = DedicatedColumns.of(schema.row_type, schema.options, options.target_file_size)
    _check_blobs(schema, blobs)
    if schema.primary_keys and blobs:
        _check_beside_key(schema, options, blobs)
    if not options.data_evolution:
        for name in sorted(blobs if not schema.primary_keys else ()):
            raise InvalidInputError(f"column {name}: a BLOB column needs data-evolution.enabled=true")
        if dedicated.vector_format:
            raise InvalidOptionError("option vector.file.format: it needs data-evolution.enabled=true")
    if dedicated and not dedicated.ordinary:
        raise InvalidInputError(
            f"column {schema.fields[0].name}: the table needs at least one column that is "
            "neither BLOB nor VECTOR"
        )
    for name in schema.partition_keys:
        if name in blobs.union(dedicated.vectors):
            raise InvalidInputError(f"column {name}: a partition column cannot be stored in separate files")


def _check_blobs(schema: TableSchema, blobs: Set[str]) -> None:
    for field in schema.fields:
        if field.name in blobs and not holds_blobs(field.type):
            raise InvalidInputError(f"column {field.name}: a BLOB can be in a list or a map, but not deeper")
        if field.name in blobs and isinstance(field.type, MapType):
            key_codec(field.type.key)
    for key, names in (
        ("blob-descriptor-field", descriptor_columns(schema.options)),
        ("blob-view-field", view_columns(schema.options)),
    ):
        for name in names:
            if name not in schema.row_type.names or not is_blob(schema.row_type.field(name).type):
                raise InvalidOptionError(f"option {key}: {name!r} is not a BLOB column")
    if both := set(descriptor_columns(schema.options)) & set(view_columns(schema.options)):
        raise InvalidOptionError(f"option blob-view-field: {min(both)!r} is also in blob-descriptor-field")


def _check_beside_key(schema: TableSchema, options: TableOptions, blobs: Set[str]) -> None:
    """Check a rule of the format: rows of a key refer to packs of blobs, and just replace one another."""
    places = (
        ("primary key", schema.primary_keys),
        ("bucket-key", schema.bucket_keys),
        ("sequence.field", options.sequence_fields),
    )
    for place, names in places:
        if blob_keys := blobs & set(names):
            raise InvalidInputError(f"column {min(blob_keys)}: a BLOB column cannot be in the {place}")
    if views := view_columns(schema.options):
        raise UnsupportedError(
            f"option blob-view-field={views[0]}: this release has no blob views in tables with a primary key"
        )
    managed = managed_columns(schema.row_type, schema.options)
    for key, value, only in (
        ("merge-engine", options.merge_engine.value, MergeEngine.DEDUPLICATE.value),
        ("changelog-producer", options.changelog_producer.value, ChangelogProducer.NONE.value),
        ("data-file.external-paths", schema.options.get("data-file.external-paths", ""), ""),
        ("pk-clustering-override", schema.options.get("pk-clustering-override", "false"), "false"),
    ):
        if managed and value != only:
            remedy = f"unset it, or keep references in the column (blob-descriptor-field={managed[0]})"
            raise InvalidOptionError(
                f"option {key}={value}: the value cannot be used with BLOB column {managed[0]}: {remedy}"
            )


def _has_blob(data_type: DataType) -> bool:
    match data_type:
        case ArrayType() | MultisetType() | VectorType():
            return _has_blob(data_type.element)
        case MapType():
            return _has_blob(data_type.key) or _has_blob(data_type.value)
        case RowType():
            return any(_has_blob(field.type) for field in data_type.fields)
    return is_blob(data_type)
