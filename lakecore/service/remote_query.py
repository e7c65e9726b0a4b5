"""This module has a query on a query service, with the lookups of a local query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakecore.errors import CorruptDataError, UnsupportedError
from lakecore.lookup.query.found_rows import FoundRows
from lakecore.lookup.query.key_reader import KeyReader, Share
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.service.addresses import ServiceManager
from lakecore.service.client import KvQueryClient
from lakecore.service.connection import ClientOptions
from lakecore.service.wire.messages import LookupRequest
from lakecore.service.wire.row_codec import RowCodec
from lakecore.types.arrow import arrow_schema

if TYPE_CHECKING:
    from lakecore.table import Table

__all__ = ["RemoteTableQuery", "has_known_buckets", "is_service_available", "open_service", "service_manager"]

Rows = np.ndarray[Any, Any]

_MOST_KEYS = 4096
_MOST_BYTES = 1 << 20


def service_manager(table: Table) -> ServiceManager:
    """Return what keeps the addresses of a table's service."""
    return ServiceManager(table._stores.file_io, table._stores.paths.table_path)


def is_service_available(table: Table) -> bool:
    """Tell whether addresses of a service are in the table; nobody is asked whether it answers."""
    return service_manager(table).service() is not None


def open_service(table: Table) -> RemoteTableQuery | None:
    """Open a query on the service of a table for keys of any bucket.

    It returns None where none is registered, where the bucket of a key is not known without the files of the
    table, or where the table has a newer schema. Raises what storage raises.
    """
    if not has_known_buckets(table) or not is_service_available(table):
        return None
    query = RemoteTableQuery(table)
    if query.is_current():
        return query
    query.close()
    return None


def has_known_buckets(table: Table) -> bool:
    """Tell whether all partitions have the number of buckets of the schema: they are fixed, and no earlier
    or later schema has another number. It reads the schemas of the table, which are cached.
    """
    if table.options.bucket_mode is not BucketMode.HASH_FIXED:
        return False
    schemas = table._stores.schemas
    numbers = {TableOptions.from_schema(schemas.load(one)).bucket for one in schemas.list_ids()}
    return len(numbers) == 1


class RemoteTableQuery:
    """It looks up rows of one table in its query service. Many threads may use it.

    Rows have all columns of the table, as Java's service sends them.
    """

    def __init__(self, table: Table, options: ClientOptions | None = None) -> None:
        """Prepare a query; the first lookup reads where the servers are."""
        self._table = table
        self._codec = RowCodec(table.schema)
        self._keys = KeyReader(table.name, table.schema, table.options)
        manager = service_manager(table)
        self._client = KvQueryClient(manager.service, options, table._stores.clock, manager.identity)
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
        rows = self.lookup_in_bucket(partition, bucket, keys)
        row: dict[str, object] = rows.rows.to_pylist()[0]
        return row if rows.matches[0].as_py() else None

    def lookup_in_bucket(self, partition: tuple[object, ...], bucket: int, keys: pa.Table) -> FoundRows:
        """Look up many keys of one bucket in one request; a key with a null has no row.

        Raises UnavailableError when the service does not answer.
        """
        where = self._keys.partition(partition)
        rows = self._keys.complete(keys, self._codec.schema.trimmed_primary_keys)
        return self._answer(keys, [((where, bucket), rows)])

    def lookup_table(self, keys: pa.Table) -> FoundRows:
        """Look up many keys of any bucket. `keys` has all columns of the primary key and the partition.

        Keys are grouped by bucket, with at most 4096 of them in a request, and the servers are asked at the
        same time. Rows of answers are decoded one by one. Raises UnsupportedError for a table of which a
        partition may have another number of buckets than the schema says, UnavailableError when a server
        does not answer.
        """
        if not has_known_buckets(self._table):
            raise UnsupportedError(
                f"table {self._table.name}: option bucket={self._table.options.bucket}: the buckets of keys "
                "are not known without its files; use lookup_in_bucket, or a local query"
            )
        return self._answer(keys, self._keys.fixed_shares(keys, self._table.options.bucket))

    def is_current(self) -> bool:
        """Tell whether the table still has the schema with which the query was made. It costs a listing."""
        return max(self._table._stores.schemas.list_ids(), default=None) == self._table.schema.id

    def _answer(self, keys: pa.Table, shares: Sequence[Share]) -> FoundRows:
        """Ask for the keys of each share, all at the same time."""
        values: list[bytes | None] = [None] * keys.num_rows
        answers = [
            (part, self._client.get_values(LookupRequest(partition, bucket, group)))
            for (partition, bucket), rows in shares
            for part, group in _requests(rows, self._codec.keys_bytes(keys.take(pa.array(rows))))
        ]
        try:
            for rows, answer in answers:
                for place, value in zip(rows, answer.result(), strict=True):
                    values[place] = value
        finally:
            for _, answer in answers:
                answer.cancel()
        values_of_rows = self._codec.found_rows(values)
        self._check_keys(keys, values_of_rows)
        return values_of_rows

    def _check_keys(self, keys: pa.Table, answer: FoundRows) -> None:
        """Compare the keys of rows with those that were asked for. The protocol does not name the table: the
        server of another one may have taken the port of a server that ended.

        Raises CorruptDataError.
        """
        schema = self._codec.schema
        names = [name for name in schema.primary_keys if name in keys.column_names]
        key_schema = arrow_schema(schema.row_type.select(tuple(names)))
        names = [
            one.name for one in key_schema if not pa.types.is_floating(one.type)
        ]  # 0.0 and -0.0 are one key
        sought, rows = keys.filter(answer.matches), answer.rows.filter(answer.matches)
        if self._codec.columns_bytes(sought, names) != self._codec.columns_bytes(rows, names):
            raise CorruptDataError(
                f"query service of table {self._table.name}",
                "it answered with rows of other keys; look which service listens at its addresses",
            )


def _requests(rows: Rows, keys: Sequence[bytes]) -> Iterator[tuple[list[int], tuple[bytes, ...]]]:
    """Yield the places and the keys of each request: no more than a server accepts in a frame, unless one key
    is larger.
    """
    start = size = 0
    for at, key in enumerate(keys):
        if at > start and (at - start == _MOST_KEYS or size + len(key) > _MOST_BYTES):
            yield rows[start:at].tolist(), tuple(keys[start:at])
            start, size = at, 0
        size += len(key)
    if start < len(keys):
        yield rows[start:].tolist(), tuple(keys[start:])
