"""This module makes the entry of a new format table from its schema, as Java's `HiveCatalog` does. It calls
nothing: it fills the records of the thrift client.
"""

from __future__ import annotations

from typing import Any

from lakecore.catalog.hive.connection import thrift_types
from lakecore.catalog.hive.entries import EXTERNAL, FOREVER, MANAGED, hive_column, one_line_comment
from lakecore.catalog.hive.type_texts import paimon_type
from lakecore.catalog.names import TableName
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.metadata.schema import TableSchema
from lakecore.read.directory.format_table import FORMAT_TABLE
from lakecore.read.directory.rules import CSV_FIELDS, FORMAT, FileKind
from lakecore.types.datatypes import DataField
from lakecore.types.sql import type_text

__all__ = ["check_format_columns", "new_format_entry"]

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
        _check_type(name, column)


def _check_type(name: TableName, column: DataField) -> None:
    text = hive_column(column, None).type
    stored = type_text(paimon_type(text))
    if stored != type_text(column.type):
        raise UnsupportedError(
            f"table {str(name)!r}: column {column.name} of type {column.type}: a Hive metastore stores it as "
            f"{text}, and the table would be read with {stored}; write that type"
        )
