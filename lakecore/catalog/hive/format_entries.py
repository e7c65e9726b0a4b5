"""This module says what kind of table an entry of a metastore is, and has the schema of a format table: one
that Hive made of csv, json, orc, parquet or text files, by the rules of Java's `HiveTableUtils`.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from lakecore.catalog.field_ids import numbered_column
from lakecore.catalog.hive.entries import is_paimon_table
from lakecore.catalog.hive.type_texts import paimon_type
from lakecore.catalog.names import PAIMON_KIND
from lakecore.metadata.schema import TableSchema
from lakecore.read.directory.format_table import FORMAT_TABLE
from lakecore.types.datatypes import DataField

__all__ = ["format_schema", "is_format_table", "kind_of_entry"]

_FORMAT_KIND = "format table"

_VIEWS = {"VIRTUAL_VIEW": "view", "MATERIALIZED_VIEW": "materialized view"}
_OTHERS = {
    "iceberg": "table of Iceberg",
    "delta": "table of Delta Lake",
    "hudi": "table of Hudi",
    "hoodie": "table of Hudi",
}
_PARAMETERS = ("table_type", "spark.sql.sources.provider", "storage_handler")
_FIELD_DELIMITER = "field.delim"
_DEFAULT_DELIMITER = "\x01"


def kind_of_entry(record: Any) -> str:
    """Return `Paimon`, `format table of csv files`, `view`, `table of Iceberg`, or what else it is."""
    if record.tableType in _VIEWS:
        return _VIEWS[record.tableType]
    if is_paimon_table(record):
        return PAIMON_KIND
    parameters = record.parameters or {}
    marks = [parameters.get(key) or "" for key in _PARAMETERS]
    if record.sd is not None:
        marks += [record.sd.inputFormat or "", _serialization(record)]
    for mark in marks:
        for name, kind in _OTHERS.items():
            if name in mark.lower():
                return kind
    if (parameters.get("transactional") or "").lower() == "true":
        return "transactional table of Hive"
    format_name = _format_of(record)
    return "table of an unknown format" if format_name is None else f"{_FORMAT_KIND} of {format_name} files"


def is_format_table(record: Any) -> bool:
    """Return whether an entry is a format table."""
    return kind_of_entry(record).startswith(_FORMAT_KIND)


def format_schema(record: Any) -> TableSchema | None:
    """Return the schema of a format table, None for an entry of another kind.

    Raises UnsupportedError for a column of a type that Paimon lacks.
    """
    name = _format_of(record) if is_format_table(record) else None
    if name is None:
        return None
    options = {str(key): str(value) for key, value in (record.parameters or {}).items()}
    comment = options.pop("comment", None)
    if name == "csv":
        parameters = record.sd.serdeInfo.parameters or {}
        options["csv.field-delimiter"] = parameters.get(_FIELD_DELIMITER, _DEFAULT_DELIMITER)
    ids = count()
    columns = [*record.sd.cols, *(record.partitionKeys or ())]
    fields = tuple(
        numbered_column(DataField(0, one.name, paimon_type(one.type), one.comment), lambda: next(ids))
        for one in columns
    )
    return TableSchema(
        id=0,
        fields=fields,
        highest_field_id=next(ids) - 1,
        partition_keys=tuple(one.name for one in record.partitionKeys or ()),
        primary_keys=(),
        options={**options, "type": FORMAT_TABLE, "file.format": name},
        comment=comment,
        time_millis=(record.createTime or 0) * 1000,
    )


def _format_of(record: Any) -> str | None:
    if record.sd is None or record.sd.serdeInfo is None:
        return None
    serialization = _serialization(record)
    for name in ("parquet", "orc"):
        if name in serialization:
            return name
    if "Text" not in (record.sd.inputFormat or ""):
        return None
    if "json" in serialization:
        return "json"
    return "text" if (record.parameters or {}).get("table_type") == "TEXT" else "csv"


def _serialization(record: Any) -> str:
    serde = record.sd.serdeInfo
    return "" if serde is None else (serde.serializationLib or "").lower()
