"""This module defines a table schema, which has fields with ids, keys and options, and its JSON
(`schema/schema-<id>`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, UnsupportedError, reason
from lakecore.metadata.json_record import json_object
from lakecore.types.datatypes import DataField, RowType

__all__ = ["TableSchema"]

_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """This is one version of a table's schema. `primary_keys` includes partition columns."""

    version: int = _VERSION
    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(repr=False)
    comment: str | None = None
    time_millis: int = 0

    @staticmethod
    def version_written() -> int:
        """Return the version of the schemas that this release writes."""
        return _VERSION

    @property
    def row_type(self) -> RowType:
        return RowType(self.fields)

    @property
    def partition_type(self) -> RowType:
        return self.row_type.select(self.partition_keys)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Return the primary key without partition columns, in primary-key order, which is also the sort
        order of files.
        """
        return tuple(key for key in self.primary_keys if key not in self.partition_keys)

    @property
    def key_type(self) -> RowType:
        return self.row_type.select(self.trimmed_primary_keys)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """Return the columns of option `bucket-key`, else the trimmed primary key; empty for tables without
        either.
        """
        text = self.options.get("bucket-key", "")
        return tuple(part.strip() for part in text.split(",") if part.strip()) or self.trimmed_primary_keys

    @classmethod
    def from_json(cls, text: str | bytes, path: str) -> TableSchema:
        """Parse a schema file and apply the defaults of its own version (1: bucket=1, <=2: orc).

        Raises CorruptDataError naming `path`, UnsupportedError for a newer version.
        """
        try:
            raw = json_object(text)
            version = int(raw.get("version") or 1)
            if version > _VERSION:
                raise UnsupportedError(
                    f"{path}: the schema has version {version}, but this release reads up to "
                    f"{_VERSION}; use a newer one"
                )
            options = {str(key): str(value) for key, value in (raw.get("options") or {}).items()}
            if version <= 1:
                options.setdefault("bucket", "1")
            if version <= 2:
                options.setdefault("file.format", "orc")
            schema = cls(
                version=version,
                id=int(raw["id"]),
                fields=tuple(DataField.from_json(field) for field in raw["fields"]),
                highest_field_id=int(raw["highestFieldId"]),
                partition_keys=tuple(raw["partitionKeys"]),
                primary_keys=tuple(raw["primaryKeys"]),
                options=options,
                comment=raw.get("comment"),
                time_millis=int(raw.get("timeMillis") or 0),
            )
            schema.row_type.select(schema.partition_keys + schema.primary_keys)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
            raise CorruptDataError(path, f"is not a schema: {reason(err)}") from err
        return schema

    def to_json(self) -> str:
        """Encode the schema file; `comment` is left out if it is None."""
        out: dict[str, Any] = {
            "version": self.version,
            "id": self.id,
            "fields": [field.to_json() for field in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
        }
        if self.comment is not None:
            out["comment"] = self.comment
        out["timeMillis"] = self.time_millis
        return json.dumps(out, indent=2)
