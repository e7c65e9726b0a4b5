"""This module makes the entry of a table in a metastore from its schema, as Java's `HiveCatalog` does.

It calls nothing: it fills the records of the thrift client.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from lakecore.catalog.hive.column_types import hive_type
from lakecore.catalog.hive.connection import thrift_types
from lakecore.catalog.hive.locations import LOCATION_PROPERTY, set_location
from lakecore.catalog.names import TableName
from lakecore.catalog.remote.table_properties import copied_properties
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.metadata.listed_partitions import TAG_FIELD, has_listed_partitions
from lakecore.metadata.schema import TableSchema
from lakecore.types.datatypes import DataField

__all__ = [
    "EXTERNAL",
    "FOREVER",
    "MANAGED",
    "EntryRules",
    "hive_column",
    "is_external",
    "is_paimon_table",
    "one_line_comment",
]

_INPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonInputFormat"
_OUTPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
_SERDE = "org.apache.paimon.hive.PaimonSerDe"
_STORAGE_HANDLER = "org.apache.paimon.hive.PaimonStorageHandler"
_HIVE_PREFIX = "hive."
_ALWAYS = ("partition.expiration-time", "data-file.path-directory")
"""These options are copied without `sync-all-properties`, too."""
_LONGEST_COMMENT = 255
FOREVER = 2**31 - 1
"""It is the retention of an entry that does not end."""
MANAGED, EXTERNAL = "MANAGED_TABLE", "EXTERNAL_TABLE"
"""These are the types of entries."""


def is_paimon_table(record: Any) -> bool:
    """Return whether an entry is that of a Paimon table, by Java's rule."""
    return (
        record.sd is not None
        and record.sd.inputFormat == _INPUT_FORMAT
        and record.sd.outputFormat == _OUTPUT_FORMAT
    )


def is_external(record: Any) -> bool:
    """Return whether the files of the table stay when it is dropped."""
    return bool(record.tableType == EXTERNAL)


@dataclass(frozen=True, slots=True)
class EntryRules:
    """These are the options of a catalog that decide what entries contain."""

    in_properties: bool
    sync_properties: bool

    def new_entry(
        self, name: TableName, schema: TableSchema, location: str, *, external: bool, owner: str, now_ms: int
    ) -> Any:
        """Return the entry of a new table. Raises InvalidInputError and UnsupportedError for columns that the
        metastore cannot hold.
        """
        parameters = {
            **self._properties(schema),
            "table_type": "PAIMON",
            "storage_handler": _STORAGE_HANDLER,
            **({"EXTERNAL": "TRUE"} if external else {}),
        }
        entry = thrift_types().Table(
            tableName=name.table,
            dbName=name.database,
            owner=owner,
            createTime=now_ms // 1000,
            lastAccessTime=now_ms // 1000,
            retention=FOREVER,
            partitionKeys=[],
            parameters=parameters,
            tableType=EXTERNAL if external else MANAGED,
        )
        self._fill(entry, schema)
        set_location(entry, location, self.in_properties)
        return entry

    def changed_entry(self, old: Any, schema: TableSchema, previous: TableSchema | None = None) -> Any:
        """Return a copy of an entry with the columns and options of `schema`; options that only `previous`
        has are removed. Raises as `new_entry`.
        """
        entry = copy.deepcopy(old)
        removed = set() if previous is None else set(self._properties(previous)) - {LOCATION_PROPERTY}
        parameters = {key: value for key, value in (old.parameters or {}).items() if key not in removed}
        entry.parameters = {**parameters, **self._properties(schema)}
        self._fill(entry, schema)
        return entry

    def _properties(self, schema: TableSchema) -> dict[str, str]:
        if self.sync_properties:
            return copied_properties(schema)
        options: Mapping[str, str] = schema.options
        of_hive = {
            key.removeprefix(_HIVE_PREFIX): value
            for key, value in options.items()
            if key.startswith(_HIVE_PREFIX)
        }
        return {**of_hive, **{key: options[key] for key in _ALWAYS if key in options}}

    def _fill(self, entry: Any, schema: TableSchema) -> None:
        """Set columns, formats and comment."""
        types = thrift_types()
        _check_columns(schema)
        descriptor = entry.sd if entry.sd is not None else types.StorageDescriptor()
        descriptor.inputFormat, descriptor.outputFormat = _INPUT_FORMAT, _OUTPUT_FORMAT
        serde = descriptor.serdeInfo if descriptor.serdeInfo is not None else types.SerDeInfo()
        serde.serializationLib, serde.parameters = _SERDE, {}
        descriptor.serdeInfo = serde
        apart: tuple[str, ...] = ()
        if has_listed_partitions(schema):
            apart = schema.partition_keys
            fields = {one.name: one for one in schema.fields}
            entry.partitionKeys = [hive_column(fields[key], fields[key].description) for key in apart]
            for one in entry.partitionKeys:
                one.name = one.name.lower()  # as the metastore stores it, which refuses a change
        elif TAG_FIELD.read(schema.options):
            tag = types.FieldSchema(name=TAG_FIELD.read(schema.options), type="string")
            entry.partitionKeys = [tag]
        descriptor.cols = [
            hive_column(one, one_line_comment(one.description))
            for one in schema.fields
            if one.name not in apart
        ]
        entry.sd = descriptor
        if schema.comment is not None:
            entry.parameters["comment"] = schema.comment


def hive_column(column: DataField, comment: str | None) -> Any:
    """Return a column of the metastore. Raises UnsupportedError for a type that Hive lacks."""
    return thrift_types().FieldSchema(name=column.name, type=hive_type(column.type), comment=comment)


def one_line_comment(comment: str | None) -> str | None:
    """Return a comment that the metastore's column holds, as Java shortens it."""
    if comment is None:
        return None
    line = comment.replace("\n", " ").replace("\r", " ")
    return line if len(line) <= _LONGEST_COMMENT else line[: _LONGEST_COMMENT - 3] + "..."


def _check_columns(schema: TableSchema) -> None:
    """Raise InvalidInputError for what a metastore refuses, before files are written."""
    names: dict[str, str] = {}
    for column in schema.fields:
        if (twin := names.setdefault(column.name.lower(), column.name)) != column.name:
            raise InvalidInputError(
                f"columns {twin!r} and {column.name!r}: a Hive metastore stores one name for both; rename one"
            )
    tag = TAG_FIELD.read(schema.options)
    if tag and schema.partition_keys:
        raise InvalidInputError(
            f"option {TAG_FIELD.key}={tag}: a table with partitions cannot have it; leave it out"
        )
    if tag and tag.lower() in names:
        raise InvalidInputError(f"option {TAG_FIELD.key}={tag}: a column has this name; choose another one")
