"""This module has the local query: point queries on a primary-key table in the process of the user.

Paimon's LocalTableQuery is the model: the same files are searched in the same order (see `bucket_view`), and
a key whose row retracts has no row. A lookup sees one state of the table, that of the last refresh, whatever
refreshes go on at the same time.

Each data file that a key needs is read once and becomes a local copy (see `lookup_file`), which the cache of
the process keeps until a refresh drops the file, or its limits say so (see `lookup_cache`). A copy that is
damaged is made again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakecore.errors import ExpiredError, InvalidInputError, NotFoundError, UnavailableError
from lakecore.lookup.query.block import DamagedCopyError
from lakecore.lookup.query.bucket_search import BucketSource, search_bucket, search_one
from lakecore.lookup.query.bucket_view import BucketRules
from lakecore.lookup.query.cache_options import CacheOptions
from lakecore.lookup.query.copy_writer import CopyRows, DataFileCopy
from lakecore.lookup.query.found_rows import FoundRows, gather
from lakecore.lookup.query.keys_given import KeyReader, Share
from lakecore.lookup.query.lookup_cache import CopyWriter, LookupCache, shared_cache
from lakecore.lookup.query.lookup_file import LookupFile
from lakecore.lookup.query.support import check_lookups
from lakecore.lookup.query.table_view import Bucket, TableView
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.predicate.parse import parse_where
from lakecore.predicate.tree import Predicate
from lakecore.read.source.readable import Readable
from lakecore.read.source.scan import checked_columns
from lakecore.scan.file_monitor import FileMonitor
from lakecore.store.indexes import load_deletions
from lakecore.types.arrow import arrow_schema

__all__ = ["LocalTableQuery"]

R = TypeVar("R")

_TRIES = 5


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
        self._ctx = table._read_context()
        self._columns = checked_columns(columns, table.schema.row_type)
        check_lookups(table.name, table.schema, table.options, self._columns)
        table._scanner.check(table.schema)
        looks_up = table.options.needs_lookup
        self._keys = KeyReader(table.name, table.schema, table.options)
        self._view = TableView(BucketRules(table.schema.key_type, int(looks_up), looks_up))
        predicate = parse_where(where, table.schema.row_type) if isinstance(where, str) else where
        self._options = CacheOptions.from_options(table.schema.options)
        self._rows = CopyRows(columns=self._columns, keep=predicate, sequences=not looks_up)
        self._kind = (
            self._ctx.paths.table_path,
            id(self._ctx.file_io),
            self._ctx.schema.id,
            repr(self._rows),
        )
        self._vectors: dict[DeletionFile, BitMap] = {}
        self._lock = threading.RLock()
        self._monitor: FileMonitor | None = None
        self._cache = cache or shared_cache()
        self._holder = self._cache.join(self._options)
        self._closed = False
        stored = arrow_schema(table.schema.row_type.select(self._columns))
        self.schema = pa.schema([column.with_nullable(True) for column in stored])
        """It is the Arrow schema of found rows; all columns are nullable."""

    def __enter__(self) -> LocalTableQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release what the query holds; later calls do nothing. Lookups fail from now on."""
        with self._lock:
            self._closed = True
            self._view = TableView(self._view.rules)
            self._vectors = {}
            self._cache.leave(self._holder)

    def refresh(self) -> int | None:
        """Read the changes up to the latest snapshot and return its id; None while there is no snapshot.

        The first call costs the manifests of the snapshot, later ones those of the changes. Where the next
        snapshot has expired, or the table was rolled back, the query begins with all files again.
        """
        with self._lock:
            self._check_open()
            monitor = self._monitor = self._monitor or FileMonitor(self._table._scanner)
            for _ in range(_TRIES):
                try:
                    self._follow(monitor)
                    return monitor.snapshot_id
                except (ExpiredError, InvalidInputError):  # the latter: the files do not fit its changes
                    monitor.restart()
            raise ExpiredError(
                f"table {self._table.name}: snapshots expired {_TRIES} times while their files were listed; "
                "keep snapshots longer (snapshot.time-retained)"
            )

    def _follow(self, monitor: FileMonitor) -> None:
        """Apply the plans that exist by now. What was applied stays where a later one fails."""
        view = self._view
        try:
            for plan in monitor:
                view = view.applied(plan)
        finally:
            self._replace(view)

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
        with self._lock:
            self._check_open()
            new = self._view.find((where, bucket)) is None
            total = total_buckets or (self._table.options.bucket if new else None)
            self._replace(self._view.changed((where, bucket), before, after, total, deletions))

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
            found = view.find(place)
            if found is None:
                return None
            if not found.nearest_is_current:
                parts = search_bucket(found, keys, np.zeros(1, np.int64), self._source(place))
                return parts[0][1].to_pylist()[0] if parts else None
            one = search_one(found, keys, self._source(place))
            return None if one is None else one[0].row_values(one[1], self._columns)

        return self._current(answer)

    def lookup_in_bucket(self, partition: tuple[object, ...], bucket: int, keys: pa.Table) -> FoundRows:
        """Look up many keys of one bucket. `keys` has the columns of the primary key without partition
        columns; a key with a null has no row.
        """
        place = (self._keys.partition(partition), bucket)
        rows = self._keys.complete(keys, self._table.schema.trimmed_primary_keys)
        return self._answer(keys, lambda _: [(place, rows)])

    def lookup_table(self, keys: pa.Table) -> FoundRows:
        """Look up many keys of any bucket. `keys` has all columns of the primary key and the partition.

        Buckets are computed from the keys; where they are not a function of the key (bucket=-1), all buckets
        of a partition are searched.
        """
        named = self._keys.by_partition(keys)
        return self._answer(keys, lambda view: self._keys.shares(keys, named, view))

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
                    parts += search_bucket(bucket, columns.take(rows), rows, self._source(place))
            return gather(keys.num_rows, self.schema, parts)

        return self._current(answer)

    def _current(self, answer: Callable[[TableView], R]) -> R:
        """Answer from the current state. Where that fails because a snapshot expired, or a local copy is
        damaged, do what helps and answer again.
        """
        for _ in range(_TRIES):
            self._check_open()
            view = self._view
            try:
                return answer(view)
            except DamagedCopyError as err:
                self._cache.discard(err.args[0])
            except NotFoundError:
                if self._view is view and self._monitor is not None:
                    self.refresh()
                if self._view is view:
                    raise
        raise UnavailableError(
            f"table {self._table.name}: the lookup failed {_TRIES} times, because snapshots expired or local "
            "files were damaged meanwhile; check the local disk, or refresh more often"
        )

    def _source(self, place: Bucket) -> BucketSource:
        options = self._table.options
        return BucketSource(
            file=lambda file: self._file(place, file),
            deleted=self._deleted,
            columns=self._columns,
            ignores_retracts=options.ignore_delete and not options.skips_level_0,
        )

    def _file(self, place: Bucket, file: DataFile) -> LookupFile:
        def writer() -> CopyWriter:
            ctx = self._ctx.in_partition(place[0])
            folder = ctx.bucket_dir(*place)
            copy = DataFileCopy(ctx, folder, file, self._rows, self._options)
            return copy.parts, copy.index

        return self._cache.file(self._holder, self._name(place, file.file_name), writer)

    def _name(self, place: Bucket, file_name: str) -> Hashable:
        """Return the name of a copy: queries of the same rows share it."""
        return self._kind, place, file_name

    def _deleted(self, deletion: DeletionFile) -> BitMap:
        found = self._vectors.get(deletion)
        if found is None:
            found = self._vectors[deletion] = load_deletions(self._ctx.file_io, deletion)
        return found

    def _replace(self, view: TableView) -> None:
        """Make `view` the state that lookups see, and release the copies of files that it does not have."""
        dropped = set(self._view.file_names()) - set(view.file_names())
        self._view = view
        self._vectors = {}
        self._cache.release(self._holder, [self._name(*one) for one in dropped])

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidInputError(f"the query of table {self._table.name} is closed; make a new one")
