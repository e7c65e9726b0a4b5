"""This module has the query of a query service: serialised keys are asked, serialised rows are the answer.

The local copies have each row as the bytes that an answer has, so that an answer takes them as they are. One
warm key costs a few Python calls and no Arrow array of its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.errors import CorruptDataError, InvalidInputError
from lakecore.lookup.query.block import ROW_NAME, NotInMemoryError
from lakecore.lookup.query.bucket_search import search_bucket, search_one
from lakecore.lookup.query.bucket_view import BucketView
from lakecore.lookup.query.copy_writer import CopyRows
from lakecore.lookup.query.lookup_cache import LookupCache
from lakecore.lookup.query.packed_keys import IntegerKey, KeyColumns
from lakecore.lookup.query.query_state import OwnBuckets, QueryState
from lakecore.lookup.query.support import check_lookups
from lakecore.lookup.query.table_view import Bucket, TableView
from lakecore.read.source.readable import Readable
from lakecore.row.binary_row import row_decoder
from lakecore.row.values import rows_batch
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import AtomicType, TypeRoot

__all__ = ["MalformedKeyError", "SerializedQuery"]

Rows = tuple[bytes | None, ...]

_INTEGERS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE})
_ONE_BY_ONE = 32
"""So many keys are searched one after the other; more of them at once, which costs some 2 ms."""


class MalformedKeyError(InvalidInputError):
    """The bytes of a key are no key of the table."""


class SerializedQuery:
    """It looks up rows of one table by primary key. Several threads may use it.

    It starts without files: call `refresh`. A row is int32 number of fields, BinaryRow, as Paimon's query
    service sends it; it has all columns of the table.
    """

    def __init__(
        self, table: Readable, *, cache: LookupCache | None = None, own: OwnBuckets | None = None
    ) -> None:
        """Prepare a query; nothing is read. `cache` keeps the local copies, None: that of the process.
        Buckets that are not `own` have no rows; None: all have. Raises UnsupportedError for a table whose
        rows cannot be looked up.
        """
        schema = table.schema
        columns = schema.row_type.names
        check_lookups(table.name, schema, table.options, columns)
        table._scanner.check(schema)
        rows = CopyRows(columns=columns, keep=None, sequences=not table.options.needs_lookup, serialized=True)
        self._state = QueryState(table, rows, cache, own)
        self._key_type = schema.row_type.select(schema.trimmed_primary_keys)
        self._key_schema = pa.schema([one.with_nullable(True) for one in arrow_schema(self._key_type)])
        self._decode = row_decoder(self._key_type, "key of a request")
        kinds = [one.type for one in self._key_type.fields]
        self._integer = len(kinds) == 1 and isinstance(kinds[0], AtomicType) and kinds[0].root in _INTEGERS
        self._arity = len(columns).to_bytes(4, "big")

    def __enter__(self) -> SerializedQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release what the query holds; later calls do nothing. Lookups fail from now on."""
        self._state.close()

    def refresh(self) -> int | None:
        """Read the changes up to the latest snapshot and return its id; see `LocalTableQuery.refresh`."""
        return self._state.refresh()

    @property
    def cache(self) -> LookupCache:
        """Return the cache of its local copies."""
        return self._state.cache

    def lookup(self, partition: bytes, bucket: int, keys: Sequence[bytes]) -> Rows:
        """Return the row of each key; None where there is none, or it was deleted. Keys have the columns of
        the primary key without partition columns. Raises MalformedKeyError.
        """
        decoded = self._decoded(keys)
        place = (partition, bucket)

        def answer(view: TableView) -> Rows:
            bucket_view = view.find(place)
            if bucket_view is None:
                return (None,) * len(keys)
            if bucket_view.nearest_is_current and len(decoded) <= _ONE_BY_ONE:
                return tuple(self._one(bucket_view, place, key, in_memory=False) for key in decoded)
            return self._many(bucket_view, place, decoded)

        return self._state.answer(answer)

    def lookup_in_memory(self, partition: bytes, bucket: int, keys: Sequence[bytes]) -> Rows | None:
        """Return what `lookup` returns if there are few keys, and nothing must be read from disk or storage;
        None otherwise.
        """
        if len(keys) > _ONE_BY_ONE:
            return None
        decoded = self._decoded(keys)
        place = (partition, bucket)

        def answer(view: TableView) -> Rows | None:
            bucket_view = view.find(place)
            if bucket_view is None:
                return (None,) * len(keys)
            if not bucket_view.nearest_is_current:
                return None
            return tuple(self._one(bucket_view, place, key, in_memory=True) for key in decoded)

        try:
            return self._state.answer(answer)
        except NotInMemoryError:
            return None

    def _decoded(self, keys: Sequence[bytes]) -> list[tuple[Any, ...]]:
        try:
            return [self._decode(key) for key in keys]
        except CorruptDataError as err:
            raise MalformedKeyError(f"a key cannot be read: {err}") from err

    def _one(self, view: BucketView, place: Bucket, key: tuple[Any, ...], *, in_memory: bool) -> bytes | None:
        if None in key:
            return None
        one = IntegerKey(key[0]) if self._integer else self._columns([key])
        row = search_one(view, one, self._state.source(place, in_memory=in_memory))
        return None if row is None else self._arity + row[0].row_bytes(row[1])

    def _many(self, view: BucketView, place: Bucket, keys: Sequence[tuple[object, ...]]) -> Rows:
        complete = np.array([at for at, key in enumerate(keys) if None not in key], np.int64)
        out: list[bytes | None] = [None] * len(keys)
        if len(complete):
            columns = self._columns([keys[at] for at in complete.tolist()])
            for places, batch in search_bucket(view, columns, complete, self._state.source(place)):
                for at, row in zip(places.tolist(), batch.column(ROW_NAME).to_pylist(), strict=True):
                    out[at] = self._arity + row
        return tuple(out)

    def _columns(self, keys: Sequence[tuple[object, ...]]) -> KeyColumns:
        batch = rows_batch(list(keys), self._key_type, self._key_schema)
        return KeyColumns.of(batch.columns, self._key_type)
