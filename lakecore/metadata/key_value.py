"""This module defines the columns of a key-value file: `_KEY_*`, `_SEQUENCE_NUMBER`, `_VALUE_KIND`, then the
table's.
"""

from __future__ import annotations

from lakecore.metadata.row_kind import (
    KEY_FIELD_ID_START,
    KEY_PREFIX,
    KIND_FIELD_ID,
    KIND_NAME,
    SEQUENCE_FIELD_ID,
    SEQUENCE_NAME,
)
from lakecore.metadata.schema import TableSchema
from lakecore.types.datatypes import AtomicType, DataField, RowType, TypeRoot, with_nullable

__all__ = ["key_fields", "key_names", "key_value_type"]

_SEQUENCE = DataField(SEQUENCE_FIELD_ID, SEQUENCE_NAME, AtomicType(TypeRoot.BIGINT, nullable=False))
_KIND = DataField(KIND_FIELD_ID, KIND_NAME, AtomicType(TypeRoot.TINYINT, nullable=False))


def key_names(schema: TableSchema) -> tuple[str, ...]:
    """Return `_KEY_<name>` for each key column, in sort order."""
    return tuple(KEY_PREFIX + name for name in schema.trimmed_primary_keys)


def key_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """Return the stored key columns, in sort order; they are never null and have ids of their own."""
    return tuple(
        DataField(KEY_FIELD_ID_START + field.id, KEY_PREFIX + field.name, with_nullable(field.type, False))
        for field in schema.key_type
    )


def key_value_type(schema: TableSchema, *, thin: bool = False) -> RowType:
    """Return the columns of a file in stored order. `thin`: without key columns (data-file.thin-mode)."""
    keys = () if thin else key_fields(schema)
    return RowType((*keys, _SEQUENCE, _KIND, *schema.fields), nullable=False)
