"""This module says what kind of table an entry of a metastore is. It makes the entry of a format table from
its schema, and the schema from the entry, by the rules of Java's `HiveCatalog` and `HiveTableUtils`. It calls
nothing: it reads and fills the records of the thrift client.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from lakecore.catalog.field_ids import numbered_column
from lakecore.catalog.hive.connection import thrift_types
from lakecore.catalog.hive.entries import (
    EXTERNAL,
    FOREVER,
    MANAGED,
    hive_column,
    is_paimon_table,
    one_line_comment,
)
from lakecore.catalog.hive.formats.type_texts import paimon_type
from lakecore.catalog.names import PAIMON_KIND, TableName
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.metadata.schema import TableSchema
from lakecore.read.directory.format_table import FORMAT_TABLE
from lakecore.read.directory.rules import CSV_FIELDS, FORMAT, FileKind
from lakecore.types.datatypes import DataField
from lakecore.types.sql import type_text

__all__ = [
    "check_format_columns",
    "check_stored_type",
    "format_schema",
    "is_format_table",
    "kind_of_entry",
    "new_format_entry",
]

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


_QL = "org.apache.hadoop.hive.ql.io"
_LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_TEXT = ("org.apache.hadoop.mapred.TextInputFormat", f"{_QL}.HiveIgnoreKeyTextOutputFormat")
_CLASSES = {
    FileKind.CSV: (_LAZY, *_TEXT),
    FileKind.TEXT: (_LAZY, *_TEXT),
    FileKind.JSON: ("org.apache.hive.hcatalog.data.JsonSerDe", *_TEXT),
    FileKind.PARQUET: (
        f"{_QL}.parquet.serde.ParquetHiveSerDe",
        f"{_QL}.parquet.MapredParquetInputFormat",
        f"{_QL}.parquet.MapredParquetOutputFormat",
    ),
    FileKind.ORC: (f"{_QL}.orc.OrcSerde", f"{_QL}.orc.OrcInputFormat", f"{_QL}.orc.OrcOutputFormat"),
}
"""These are the classes of rows, of inputs and of outputs."""


def new_format_entry(
    name: TableName, schema: TableSchema, location: str, *, external: bool, owner: str, now_ms: int
) -> Any:
    """Return the entry of a new format table, whose partition columns stand behind the others. Raises as
    `check_format_columns`.
    """
    check_format_columns(name, schema)
    kind = FORMAT.read(schema.options)
    serialization, inputs, outputs = _CLASSES[kind]
    types = thrift_types()
    fields = {one.name: one for one in schema.fields}
    own = [one for one in schema.fields if one.name not in schema.partition_keys]
    delimiter = {"field.delim": schema.options.get(CSV_FIELDS.key, CSV_FIELDS.default)}
    return types.Table(
        tableName=name.table,
        dbName=name.database,
        owner=owner,
        createTime=now_ms // 1000,
        lastAccessTime=now_ms // 1000,
        retention=FOREVER,
        partitionKeys=[hive_column(fields[key], fields[key].description) for key in schema.partition_keys],
        parameters={
            **schema.options,
            "table_type": kind.name,
            FORMAT.key: kind.value,
            "type": FORMAT_TABLE,
            **({"EXTERNAL": "TRUE"} if external else {}),
            **({} if schema.comment is None else {"comment": schema.comment}),
        },
        tableType=EXTERNAL if external else MANAGED,
        sd=types.StorageDescriptor(
            cols=[hive_column(one, one_line_comment(one.description)) for one in own],
            inputFormat=inputs,
            outputFormat=outputs,
            location=location,
            serdeInfo=types.SerDeInfo(
                serializationLib=serialization, parameters=delimiter if kind is FileKind.CSV else {}
            ),
        ),
    )


def check_format_columns(name: TableName, schema: TableSchema) -> None:
    """Raise InvalidInputError or UnsupportedError for a column that the metastore, which alone has the
    columns, stores as another one.
    """
    for column in schema.fields:
        if column.name != column.name.lower():
            raise InvalidInputError(
                f"table {str(name)!r}: column {column.name!r}: a Hive metastore stores names of columns in "
                "lower case, so that the column would not be that of the files; write it in lower case"
            )
        check_stored_type(f"table {str(name)!r}", column)


def check_stored_type(what: str, column: DataField) -> None:
    """Raise UnsupportedError for a column whose type the metastore stores as another one; `what` has it."""
    text = hive_column(column, None).type
    stored = type_text(paimon_type(text))
    if stored != type_text(column.type):
        raise UnsupportedError(
            f"{what}: column {column.name} of type {column.type}: a Hive metastore stores it as {text}, and "
            f"it would be read as {stored}; write that type"
        )
