"""This module has the local query: point queries on a primary-key table in the process of the user.

Paimon's LocalTableQuery is the model: the same files are searched in the same order (see `bucket_view`), and
a key whose row retracts has no row. A lookup sees one state of the table, that of the last refresh, whatever
refreshes go on at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from lakecore.lookup.query.bucket_search import search_bucket, search_one
from lakecore.lookup.query.copy_writer import CopyRows
from lakecore.lookup.query.found_rows import FoundRows, gather
from lakecore.lookup.query.key_reader import KeyReader, Share
from lakecore.lookup.query.lookup_cache import LookupCache
from lakecore.lookup.query.query_state import QueryState
from lakecore.lookup.query.support import check_lookups
from lakecore.lookup.query.table_view import TableView
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.predicate.parse import parse_where
from lakecore.predicate.tree import Predicate
from lakecore.read.source.lineage.read_versions import report_lookup
from lakecore.read.source.readable import Readable
from lakecore.read.source.scan import checked_columns
from lakecore.types.arrow import arrow_schema

__all__ = ["LocalTableQuery"]


class LocalTableQuery:
    """It looks up rows of one table by primary key. Several threads may use it.

    It starts without files: call `refresh`, or `refresh_files` for buckets whose files the caller follows.
    """

    def __init__(
        self,
        table: Readable,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        cache: LookupCache | None = None,
    ) -> None:
        """Prepare a query for these columns, None for all; nothing is read.

        Keys whose current row does not satisfy `where` have no row; values of other rows are not copied.
        `cache` keeps the local copies, None: that of the process. Raises UnsupportedError for a table whose
        rows cannot be looked up, InvalidInputError for an unknown column.
        """
        self._table = table
        self._is_reported = False
        self._columns = checked_columns(columns, table.schema.row_type)
        check_lookups(table.name, table.schema, table.options, self._columns)
        table._scanner.check(table.schema)
        predicate = parse_where(where, table.schema.row_type) if isinstance(where, str) else where
        looks_up = table.options.needs_lookup
        rows = CopyRows(columns=self._columns, keep=predicate, sequences=not looks_up)
        self._names = table.schema.trimmed_primary_keys
        self._keys = KeyReader(table.name, table.schema, table.options)
        self._state = QueryState(table, rows, cache)
        stored = arrow_schema(table.schema.row_type.select(self._columns))
        self.schema = pa.schema([column.with_nullable(True) for column in stored])
        """It is the Arrow schema of found rows; all columns are nullable."""

    def __enter__(self) -> LocalTableQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release what the query holds; later calls do nothing. Lookups fail from now on."""
        self._state.close()

    def refresh(self) -> int | None:
        """Read the changes up to the latest snapshot and return its id; None while there is no snapshot.

        The first call costs the manifests of the snapshot, later ones those of the changes. Where the next
        snapshot has expired, or the table was rolled back, the query begins with all files again.
        """
        snapshot_id = self._state.refresh()
        if not self._is_reported and snapshot_id is not None:
            self._is_reported = True
            report_lookup(self._table, snapshot_id, self._columns)
        return snapshot_id

    def refresh_files(
        self,
        partition: bytes | tuple[object, ...],
        bucket: int,
        before: Sequence[DataFile],
        after: Sequence[DataFile],
        *,
        total_buckets: int | None = None,
        deletions: Mapping[str, DeletionFile] | None = None,
    ) -> None:
        """Remove the files `before` from a bucket and add those `after`, as one step for lookups.

        `partition` has its values, or is the serialised row. The first call for a bucket must come without
        files before. `total_buckets` is the number of buckets of the partition; None: it is that of the
        option `bucket`, or stays. `deletions` are all deletion vectors of the bucket; None: they stay. Raises
        InvalidInputError for files that the query does not have.
        """
        where = partition if isinstance(partition, bytes) else self._keys.partition(partition)
        self._state.change((where, bucket), before, after, total_buckets, deletions)

    def lookup(
        self, partition: tuple[object, ...], bucket: int, key: tuple[object, ...]
    ) -> dict[str, object] | None:
        """Return the row of a key; None where there is none, or it was deleted.

        `key` has the values of the primary key without partition columns, in its order.
        """
        place = (self._keys.partition(partition), bucket)
        keys = self._keys.one(key)
        if keys is None:
            return None

        def answer(view: TableView) -> dict[str, object] | None:
            bucket_view = view.find(place)
            if bucket_view is None:
                return None
            source = self._state.source(place)
            if not bucket_view.nearest_is_current:
                parts = search_bucket(
                    bucket_view, self._keys.one_as_columns(key), np.zeros(1, np.int64), source
                )
                return parts[0][1].to_pylist()[0] if parts else None
            one = search_one(bucket_view, keys, source)
            return None if one is None else one[0].row_values(one[1], self._columns)

        return self._state.answer(answer)

    def lookup_in_bucket(self, partition: tuple[object, ...], bucket: int, keys: pa.Table) -> FoundRows:
        """Look up many keys of one bucket. `keys` has the columns of the primary key without partition
        columns; a key with a null has no row.
        """
        place = (self._keys.partition(partition), bucket)
        rows = self._keys.complete(keys, self._names)
        return self._answer(keys, lambda _: [(place, rows)])

    def lookup_table(self, keys: pa.Table) -> FoundRows:
        """Look up many keys of any bucket. `keys` has all columns of the primary key and the partition.

        Buckets are computed from the keys; where they are not a function of the key (bucket=-1), all buckets
        of a partition are searched.
        """
        groups = self._keys.by_partition(keys)
        return self._answer(keys, lambda view: self._keys.shares(keys, groups, view))

    def _answer(self, keys: pa.Table, shares: Callable[[TableView], list[Share]]) -> FoundRows:
        """Answer from the current state.

        Where a file of it is gone, because its snapshot expired, a query that follows the table by itself is
        refreshed, and answers again.
        """
        columns = self._keys.columns(keys)

        def answer(view: TableView) -> FoundRows:
            parts = []
            for place, rows in shares(view):
                if len(rows) and (bucket := view.find(place)) is not None:
                    parts += search_bucket(bucket, columns.take(rows), rows, self._state.source(place))
            return gather(keys.num_rows, self.schema, parts)

        return self._state.answer(answer)
