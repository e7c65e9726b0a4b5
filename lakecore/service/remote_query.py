"""This module has a query on a query service, with the lookups of a local query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakecore.lookup.query.found_rows import FoundRows
from lakecore.lookup.query.key_reader import KeyReader
from lakecore.service.addresses import ServiceManager
from lakecore.service.client import KvQueryClient
from lakecore.service.connection import ClientOptions
from lakecore.service.messages import LookupRequest
from lakecore.service.row_codec import RowCodec
from lakecore.types.arrow import arrow_schema

if TYPE_CHECKING:
    from lakecore.table import Table

__all__ = ["RemoteTableQuery", "is_service_available", "service_manager"]


def service_manager(table: Table) -> ServiceManager:
    """Return what keeps the addresses of a table's service."""
    return ServiceManager(table._stores.file_io, table._stores.paths.table_path)


def is_service_available(table: Table) -> bool:
    """Tell whether addresses of a service are in the table; nobody is wanted whether it answers."""
    return service_manager(table).service() is not None


class RemoteTableQuery:
    """It looks up rows of one table in its query service. Many threads may use it.

    Rows have all columns of the table, as Java's service sends them.
    """

    def __init__(self, table: Table, options: ClientOptions | None = None) -> None:
        """Prepare a query; the first lookup reads where the servers are."""
        self._codec = RowCodec(table.schema)
        self._keys = KeyReader(table.name, table.schema, table.options)
        self._client = KvQueryClient(service_manager(table).service, options, table._stores.clock)
        self.schema = pa.schema([one.with_nullable(True) for one in arrow_schema(table.schema.row_type)])
        """It is the Arrow schema of found rows; all columns are nullable."""

    def __enter__(self) -> RemoteTableQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def lookup(
        self, partition: tuple[object, ...], bucket: int, key: tuple[object, ...]
    ) -> dict[str, object] | None:
        """Return the row of a key; None where there is none. A key is given as to a local query."""
        if self._keys.one(key) is None:
            return None
        fields = list(arrow_schema(self._codec.key_type))
        columns = [pa.array([value], field.type) for value, field in zip(key, fields, strict=True)]
        keys = pa.Table.from_arrays(columns, names=[field.name for field in fields])
        found = self.lookup_in_bucket(partition, bucket, keys)
        row: dict[str, object] = found.rows.to_pylist()[0]
        return row if found.found[0].as_py() else None

    def lookup_in_bucket(self, partition: tuple[object, ...], bucket: int, keys: pa.Table) -> FoundRows:
        """Look up many keys of one bucket in one request; a key with a null has no row.

        Raises UnavailableError when the service does not answer.
        """
        where = self._keys.partition(partition)
        complete = self._keys.complete(keys, self._codec.schema.trimmed_primary_keys)
        wanted = self._codec.keys_bytes(keys.take(pa.array(complete)))
        values: list[bytes | None] = [None] * keys.num_rows
        if wanted:
            answers = self._client.ask(LookupRequest(where, bucket, wanted))
            for place, value in zip(complete.tolist(), answers, strict=True):
                values[place] = value
        return self._codec.found_rows(values)
