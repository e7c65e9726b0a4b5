"""This module makes the entry of a view in a metastore, and the view from an entry, by the rules of Java's
`HiveCatalog`. It calls nothing: it reads and fills the records of the thrift client.
"""

from __future__ import annotations

import copy
from itertools import count
from typing import Any

from lakecore.catalog.field_ids import numbered_type
from lakecore.catalog.hive.column_types import hive_type
from lakecore.catalog.hive.connection import thrift_types
from lakecore.catalog.hive.entries import hive_column
from lakecore.catalog.hive.formats.format_entries import check_stored_type
from lakecore.catalog.hive.formats.type_texts import paimon_type
from lakecore.catalog.names import TableName
from lakecore.catalog.objects.view import View
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.types.datatypes import DataField, DataType

__all__ = [
    "VIEW",
    "changed_view_entry",
    "check_options",
    "check_view",
    "is_view",
    "new_view_entry",
    "view_of_entry",
]

VIEW = "VIRTUAL_VIEW"
"""This is the type of the entry of a view."""
_COMMENT = "comment"
_LONGEST_COMMENT = 256
_INPUT_FORMAT = "org.apache.hadoop.mapred.SequenceFileInputFormat"
_OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
_SERDE = "org.apache.hadoop.hive.serde2.MetadataTypedColumnsetSerDe"
"""These are the classes that Hive gives an entry without files."""


def is_view(record: Any | None) -> bool:
    """Return whether there is an entry, and it is that of a view, also of one that Hive or Spark made."""
    return record is not None and record.tableType == VIEW


def view_of_entry(name: TableName, record: Any) -> View:
    """Return the view of an entry. The options are all properties of the entry, beside the comment.

    Raises UnsupportedError for a column of a type that Paimon lacks, and for an entry without a query.
    """
    if record.viewExpandedText is None:
        raise UnsupportedError(
            f"view {str(name)!r}: its entry in the metastore has no query; read it with the engine that "
            "made it"
        )
    options = {str(key): str(value) for key, value in (record.parameters or {}).items()}
    comment = options.pop(_COMMENT, None)
    columns = [*(record.sd.cols if record.sd is not None else ()), *(record.partitionKeys or ())]
    return View(
        columns=tuple(_column(name, position, one) for position, one in enumerate(columns)),
        query=str(record.viewExpandedText),
        comment=comment,
        options=options,
    )


def _column(name: TableName, position: int, column: Any) -> DataField:
    try:
        return DataField(position, column.name, paimon_type(column.type), column.comment)
    except UnsupportedError as err:
        raise UnsupportedError(f"view {str(name)!r}: column {column.name}: {err}") from err


def new_view_entry(name: TableName, view: View, now_ms: int) -> Any:
    """Return the entry of a new view, which has passed `check_view`. It has no owner, as that of Java."""
    types = thrift_types()
    skewed = types.SkewedInfo(skewedColNames=[], skewedColValues=[], skewedColValueLocationMaps={})
    return types.Table(
        tableName=name.table,
        dbName=name.database,
        createTime=now_ms // 1000,
        lastAccessTime=0,
        retention=0,
        partitionKeys=[],
        parameters=_parameters(view),
        viewOriginalText=view.query,
        viewExpandedText=view.query,
        tableType=VIEW,
        sd=types.StorageDescriptor(
            cols=[hive_column(one, one.description) for one in view.columns],
            inputFormat=_INPUT_FORMAT,
            outputFormat=_OUTPUT_FORMAT,
            compressed=False,
            numBuckets=-1,
            serdeInfo=types.SerDeInfo(serializationLib=_SERDE, parameters={"serialization.format": "1"}),
            bucketCols=[],
            sortCols=[],
            parameters={},
            skewedInfo=skewed,
        ),
    )


def changed_view_entry(record: Any, view: View) -> Any:
    """Return a copy of an entry with the comment and the options of `view`."""
    entry = copy.deepcopy(record)
    entry.parameters = _parameters(view)
    return entry


def _parameters(view: View) -> dict[str, str]:
    return {**view.options, **({} if view.comment is None else {_COMMENT: view.comment})}


def check_view(name: TableName, view: View) -> None:
    """Raise UnsupportedError or InvalidInputError for what the metastore does not store, or stores as
    something else: dialects, an option `comment`, types and names of columns.
    """
    what = f"view {str(name)!r}"
    check_options(name, view)
    names = set[str]()
    for column in view.columns:
        if column.name != column.name.lower() or column.name in names:
            raise InvalidInputError(
                f"{what}: column {column.name!r}: a Hive metastore stores names of columns in lower case, "
                "and each once; choose another name"
            )
        names.add(column.name)
        if len(column.description or "") > _LONGEST_COMMENT:
            raise InvalidInputError(
                f"{what}: column {column.name!r}: in a Hive metastore its comment has at most "
                f"{_LONGEST_COMMENT} characters"
            )
        check_stored_type(what, column)
        if _with_fresh_ids(column.type) != _with_fresh_ids(paimon_type(hive_type(column.type))):
            raise InvalidInputError(
                f"{what}: column {column.name!r}: a Hive metastore stores no comments and defaults of the "
                "fields inside of a type; leave them out"
            )


def _with_fresh_ids(kind: DataType) -> DataType:
    ids = count()
    return numbered_type(kind, lambda: next(ids))


def check_options(name: TableName, view: View) -> None:
    """Raise UnsupportedError for dialects, InvalidInputError for an option `comment`."""
    what = f"view {str(name)!r}"
    if view.dialects:
        raise UnsupportedError(
            f"{what}: dialect {next(iter(view.dialects))!r}: a Hive metastore has one query of a view; leave "
            "dialects out, or create the view in a catalog with metastore=rest or jdbc"
        )
    if _COMMENT in view.options:
        raise InvalidInputError(f"{what}: option {_COMMENT!r}: the metastore has the comment under this key")
