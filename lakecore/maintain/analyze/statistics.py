"""This module has the statistics of a table for planners of queries, as the format has them. It is pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, LakeError
from lakecore.maintain.analyze.columns import bounds_text, can_analyze
from lakecore.metadata.schema import TableSchema
from lakecore.types.datatypes import AtomicType, DataField, TypeRoot
from lakecore.types.text import parse_value

__all__ = ["Statistics"]

_COUNTS = ("distinctCount", "nullCount", "avgLen", "maxLen")
_BOUNDS = ("min", "max")
_ID = "colId"
_HIGHEST = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """These are the statistics of the rows of one snapshot, merged, as Java's `Statistics` has them."""

    snapshot_id: int
    """It is the snapshot whose rows are described."""
    schema_id: int
    """It is the schema to which the columns belong."""
    rows: int | None = None
    """It is the number of rows; None if a file does not tell it."""
    size: int | None = None
    """It is an estimate in bytes; None if a file does not tell it."""
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """It maps the name of a column to its statistics, under the keys of the file: `distinctCount`, `min`,
    `max`, `nullCount`, `avgLen`, `maxLen` and `colId`.
    """

    def to_json(self) -> str:
        """Return the text of the statistics file."""
        raw = {
            "snapshotId": self.snapshot_id,
            "schemaId": self.schema_id,
            "mergedRecordCount": self.rows,
            "mergedRecordSize": self.size,
            "colStats": {name: dict(column) for name, column in self.columns.items()},
        }
        present = {key: value for key, value in raw.items() if value is not None}
        return json.dumps(present, indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Statistics:
        """Parse the object of a statistics file. Raises ValueError, KeyError or TypeError for another one."""
        rows, size = raw.get("mergedRecordCount"), raw.get("mergedRecordSize")
        return cls(
            snapshot_id=int(raw["snapshotId"]),
            schema_id=int(raw["schemaId"]),
            rows=None if rows is None else int(rows),
            size=None if size is None else int(size),
            columns={str(name): dict(column) for name, column in (raw.get("colStats") or {}).items()},
        )

    def of_table(self, schema: TableSchema) -> Statistics:
        """Return the statistics with checked columns and the ids of the schema.

        Raises InvalidInputError, also without rows or size: Java's table `$statistics` fails without them.
        """
        for what, value in (("rows", self.rows), ("size", self.size)):
            if not _is_count(value):
                raise InvalidInputError(f"statistics: {what} {value!r} must be a number of at least 0")
        columns = _columns(self.columns, schema)
        return replace(self, schema_id=schema.id, columns=columns)


def _columns(columns: Mapping[str, Mapping[str, Any]], schema: TableSchema) -> dict[str, dict[str, Any]]:
    """Return the statistics of columns in the form of the file, with the ids of the schema.

    Raises InvalidInputError naming the column and the key or value that cannot be.
    """
    fields = {one.name: one for one in schema.fields}
    for name in columns:
        if name not in fields:
            raise InvalidInputError(f"statistics of {name!r}: the columns are: {', '.join(fields)}")
        if not can_analyze(fields[name]):
            raise InvalidInputError(f"statistics of {name!r}: type {fields[name].type} has none")
    return {name: _column(fields[name], column) for name, column in columns.items()}


def _column(column: DataField, values: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {_ID: column.id}
    for key, value in values.items():
        if key == _ID or value is None:
            continue
        if key not in (*_COUNTS, *_BOUNDS):
            raise InvalidInputError(
                f"statistics of {column.name!r}: {key!r} is unknown; use {', '.join((*_COUNTS, *_BOUNDS))}"
            )
        if key in _COUNTS and not _is_count(value):
            raise InvalidInputError(
                f"statistics of {column.name!r}: {key}={value!r} must be a number of at least 0"
            )
        if key in _BOUNDS:
            value = _bound(column, key, value)
        out[key] = value
    return out


def _bound(column: DataField, key: str, value: Any) -> str:
    """Return a bound in the form of the file. A caller gives the text of a value of the column, or its
    number, as the file has it of dates.
    """
    assert isinstance(column.type, AtomicType)
    if column.type.root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        raise InvalidInputError(f"statistics of {column.name!r}: columns of bytes have no {key}")
    if not isinstance(value, str):
        raise InvalidInputError(f"statistics of {column.name!r}: {key}={value!r} must be a text")
    try:
        return bounds_text(parse_value(value, column.type), column.type)
    except LakeError as err:
        raise InvalidInputError(f"statistics of {column.name!r}: {key}: {err}") from err


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _HIGHEST
