"""This module builds the columns of system tables from SQL text."""

from __future__ import annotations

from lakecore.types.datatypes import ArrayType, AtomicType, DataField, RowType, TypeRoot, parse_type

__all__ = ["STRINGS", "columns"]

STRINGS = ArrayType(AtomicType(TypeRoot.VARCHAR, length=(1 << 31) - 1))


def columns(*fields: str) -> RowType:
    """Parse `"snapshot_id BIGINT NOT NULL"`, …: atomic types, ids in order. `STRINGS` stands for
    `STRING[]`.
    """
    result = []
    for number, text in enumerate(fields):
        name, _, kind = text.partition(" ")
        result.append(DataField(number, name, STRINGS if kind == "STRING[]" else parse_type(kind)))
    return RowType(tuple(result))
