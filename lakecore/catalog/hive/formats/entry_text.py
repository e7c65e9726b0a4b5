"""This module writes the entry of a format table as text, which the record of its drop keeps, and reads it.

The metastore alone has the columns of such a table, so its files are not enough to restore it.
"""

from __future__ import annotations

from typing import Any

from lakecore.catalog.hive.connection import thrift_types
from lakecore.catalog.hive.entries import is_external, is_paimon_table
from lakecore.catalog.hive.formats.format_entries import is_format_table
from lakecore.catalog.names import TableName
from lakecore.errors import CorruptDataError, reason

__all__ = ["entry_of_text", "text_of_entry"]


def text_of_entry(record: Any) -> str:
    """Return an entry as JSON, in thrift's own form."""
    from thrift.protocol.TJSONProtocol import TJSONProtocolFactory
    from thrift.TSerialization import serialize

    data: bytes = serialize(record, TJSONProtocolFactory())
    return data.decode()


def entry_of_text(text: str, name: TableName, location: str) -> Any:
    """Return the entry that `text_of_entry` wrote, under this name and location: whoever can write into the
    warehouse can write the text. Raises CorruptDataError for one that is no managed format table.
    """
    from thrift.protocol.TJSONProtocol import TJSONProtocolFactory
    from thrift.TSerialization import deserialize

    try:
        record = deserialize(thrift_types().Table(), text.encode(), TJSONProtocolFactory())
        if is_paimon_table(record) or is_external(record) or not is_format_table(record):
            raise ValueError("it is not that of a managed format table")
    except Exception as err:  # what thrift's parser raises for other texts is no class of its own
        raise CorruptDataError(
            str(name), f"has a record of its drop without its entry: {reason(err)}"
        ) from err
    record.dbName, record.tableName, record.sd.location = name.database, name.table, location
    return record
