"""This module has the query of a query service: serialised keys are asked, serialised rows are the answer.

The local copies have each row as the bytes that an answer has, so that an answer takes them as they are. One
warm key costs a few Python calls and no Arrow array of its row.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.errors import CorruptDataError, InvalidInputError
from lakecore.lookup.query.block import ROW_NAME, NotInMemoryError
from lakecore.lookup.query.bucket_search import BucketSource, search_bucket, search_one
from lakecore.lookup.query.bucket_view import BucketView
from lakecore.lookup.query.copy_writer import CopyRows
from lakecore.lookup.query.lookup_cache import LookupCache
from lakecore.lookup.query.packed_keys import IntegerKey, KeyColumns, OneKey
from lakecore.lookup.query.query_state import OwnBuckets, QueryState
from lakecore.lookup.query.support import check_lookups
from lakecore.lookup.query.table_view import Bucket, TableView
from lakecore.read.source.readable import Readable
from lakecore.row.binary_columns import decode_columns
from lakecore.row.binary_layout import FIXED_FORMATS
from lakecore.types.datatypes import AtomicType, RowType, TypeRoot

__all__ = ["MalformedKeyError", "SerializedQuery"]

Rows = tuple[bytes | None, ...]

_INTEGERS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE})
_ONE_FIELD = (1).to_bytes(4, "big") + bytes(8)
"""A serialised row of one field that is not null begins so; 8 bytes of the field follow."""
_ONE_FIELD_SIZE = 20
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
        self._integer = _integer_form(self._key_type)
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
        place = (partition, bucket)

        def answer(view: TableView) -> Rows:
            bucket_view = view.find(place)
            if bucket_view is None:
                return (None,) * len(keys)
            if bucket_view.nearest_is_current and len(keys) <= _ONE_BY_ONE:
                return self._few(bucket_view, self._state.source(place), keys)
            return self._many(bucket_view, place, keys)

        return self._state.answer(answer)

    def lookup_in_memory(self, partition: bytes, bucket: int, keys: Sequence[bytes]) -> Rows | None:
        """Return what `lookup` returns if there are few keys, and nothing must be read from disk or storage;
        None otherwise.
        """
        if len(keys) > _ONE_BY_ONE:
            return None
        place = (partition, bucket)

        def answer(view: TableView) -> Rows | None:
            bucket_view = view.find(place)
            if bucket_view is None:
                return (None,) * len(keys)
            if not bucket_view.nearest_is_current:
                return None
            return self._few(bucket_view, self._state.source(place, in_memory=True), keys)

        try:
            return self._state.answer(answer)
        except NotInMemoryError:
            return None

    def _few(self, view: BucketView, source: BucketSource, keys: Sequence[bytes]) -> Rows:
        """Return the rows of keys, one after the other."""
        rows: list[bytes | None] = []
        for data in keys:
            key = self._one_key(data)
            row = None if key is None else search_one(view, key, source)
            rows.append(None if row is None else self._arity + row[0].row_bytes(row[1]))
        return tuple(rows)

    def _one_key(self, data: bytes) -> OneKey | None:
        """Return one key; None if it has a null. Raises MalformedKeyError."""
        integer = self._integer
        if integer is not None and len(data) == _ONE_FIELD_SIZE and data.startswith(_ONE_FIELD):
            return IntegerKey(integer.unpack_from(data, len(_ONE_FIELD))[0])
        columns, complete = self._columns([data])
        return columns if len(complete) else None

    def _many(self, view: BucketView, place: Bucket, keys: Sequence[bytes]) -> Rows:
        columns, complete = self._columns(keys)
        out: list[bytes | None] = [None] * len(keys)
        if len(complete):
            for places, batch in search_bucket(view, columns, complete, self._state.source(place)):
                for at, row in zip(places.tolist(), batch.column(ROW_NAME).to_pylist(), strict=True):
                    out[at] = self._arity + row
        return tuple(out)

    def _columns(self, keys: Sequence[bytes]) -> tuple[KeyColumns, np.ndarray[Any, Any]]:
        """Return the keys that have no null, and their places. Raises MalformedKeyError."""
        try:
            columns = decode_columns(keys, self._key_type, "keys of a request")
        except CorruptDataError as err:
            raise MalformedKeyError(f"a key cannot be read: {err}") from err
        valid = np.ones(len(keys), bool)
        for column in columns:
            if column.null_count:
                valid &= column.is_valid().to_numpy(zero_copy_only=False)
        complete = np.flatnonzero(valid)
        if len(complete) < len(keys):
            columns = [column.take(pa.array(complete)) for column in columns]
        return KeyColumns.of(columns, self._key_type), complete


def _integer_form(key_type: RowType) -> struct.Struct | None:
    """Return how a key of one column of whole numbers is stored; None for other keys."""
    data_type = key_type.fields[0].type
    if len(key_type.fields) != 1 or not isinstance(data_type, AtomicType) or data_type.root not in _INTEGERS:
        return None
    return struct.Struct("<" + FIXED_FORMATS[data_type.root])
