"""This module has the state of a query: the files of a table's buckets at one snapshot, and their local
copies.

Each data file that a key needs is read once and becomes a local copy (see `lookup_file`), which the cache of
the process keeps until a refresh drops the file, or its limits say so (see `lookup_cache`). A copy that is
damaged is made again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

from pyroaring import BitMap

from lakecore.errors import ExpiredError, InvalidInputError, NotFoundError, UnavailableError
from lakecore.lookup.copies.process_cache import process_cache
from lakecore.lookup.copies.source import CopyForm, CopySource, CopyWriter, copy_digest, table_digest
from lakecore.lookup.query.block import DamagedCopyError, NotInMemoryError
from lakecore.lookup.query.bucket_search import BucketSource
from lakecore.lookup.query.bucket_view import BucketRules
from lakecore.lookup.query.cache_options import CacheOptions
from lakecore.lookup.query.copy_writer import CopyRows, DataFileCopy, FilePlace
from lakecore.lookup.query.lookup_cache import LookupCache
from lakecore.lookup.query.lookup_file import LookupFile
from lakecore.lookup.query.remote_file import RemoteFileError, find_remote_file
from lakecore.lookup.query.table_view import Bucket, TableView
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.read.source.readable import Readable
from lakecore.scan.file_monitor import FileMonitor, FilePlan
from lakecore.store.indexes import load_deletions

__all__ = ["OwnBuckets", "QueryState"]

R = TypeVar("R")
OwnBuckets = Callable[[bytes, int], bool]
"""It tells whether a query answers for a bucket, given by its serialised partition and its number."""

logger = logging.getLogger(__name__)

_TRIES = 5


class QueryState:
    """It follows the files of a table, and runs lookups on one state of them. Several threads may use it.

    It begins without files. Memory grows with the files of the buckets that are its own.
    """

    def __init__(
        self,
        table: Readable,
        rows: CopyRows,
        cache: LookupCache | None = None,
        own: OwnBuckets | None = None,
    ) -> None:
        """Prepare without files. `rows` says what local copies have; `cache` keeps them, None: that of the
        process. Buckets that are not `own` are left out; None: all are.
        """
        self._table = table
        self._ctx = table._read_context()
        self._rows = rows
        self._own = own
        self.looks_up = table.options.needs_lookup
        self._view = TableView(BucketRules(table.schema.key_type, int(self.looks_up), by_level=self.looks_up))
        self._options = CacheOptions.from_options(table.schema.options)
        kind = (self._ctx.paths.table_path, id(self._ctx.file_io), self._ctx.schema.id, rows)
        self._kind = repr(kind)
        self._vectors: dict[DeletionFile, BitMap] = {}
        self._sources: dict[tuple[Bucket, bool], BucketSource] = {}
        self._lock = threading.RLock()
        self._monitor: FileMonitor | None = None
        self._cache = cache or process_cache()
        self._holder = self._cache.join(self._options)
        self._closed = False

    @property
    def cache(self) -> LookupCache:
        """Return the cache of its local copies."""
        return self._cache

    def close(self) -> None:
        """Release the local copies; later calls do nothing. Lookups fail from now on."""
        with self._lock:
            self._closed = True
            self._view = TableView(self._view.rules)
            self._vectors = {}
            self._cache.leave(self._holder)

    def refresh(self) -> int | None:
        """Read the changes up to the latest snapshot and return its id; None while there is no snapshot.

        The first call costs the manifests of the snapshot, later ones those of the changes. Where the next
        snapshot has expired, or the table was rolled back, the state begins with all files again.
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
                view = view.applied(self._own_part(plan))
        finally:
            self._replace(view)

    def _own_part(self, plan: FilePlan) -> FilePlan:
        own = self._own
        if own is None:
            return plan
        return replace(plan, buckets=tuple(one for one in plan.buckets if own(one.partition, one.bucket)))

    def change(
        self,
        place: Bucket,
        before: Sequence[DataFile],
        after: Sequence[DataFile],
        total_buckets: int | None,
        deletions: Mapping[str, DeletionFile] | None,
    ) -> None:
        """Change the files of a bucket as one step for lookups; see `LocalTableQuery.refresh_files`."""
        with self._lock:
            self._check_open()
            new = self._view.find(place) is None
            total = total_buckets or (self._table.options.bucket if new else None)
            self._replace(self._view.changed(place, before, after, total, deletions))

    def answer(self, lookup: Callable[[TableView], R]) -> R:
        """Run a lookup on the current state. Where it fails because a snapshot expired, or a local copy is
        damaged, do what helps and run it again. Raises NotFoundError where a data file does not exist and
        the state does not follow the table by itself, UnavailableError.
        """
        for _ in range(_TRIES):
            self._check_open()
            view = self._view
            try:
                return lookup(view)
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

    def source(self, place: Bucket, *, in_memory: bool = False) -> BucketSource:
        """Return what supplies the contents of a bucket. With `in_memory` nothing is read: a lookup that
        would have to read raises NotInMemoryError.
        """
        source = self._sources.get((place, in_memory))
        if source is None:
            source = self._sources[place, in_memory] = self._source(place, in_memory)
        return source

    def _source(self, place: Bucket, in_memory: bool) -> BucketSource:
        options = self._table.options
        return BucketSource(
            file=lambda file: self._file(place, file, in_memory),
            deleted=lambda deletion: self._deleted_rows(deletion, in_memory),
            columns=self._rows.stored_columns,
            ignores_retracts=options.ignore_delete and not options.skips_level_0,
            in_memory=in_memory,
        )

    def _file(self, place: Bucket, file: DataFile, in_memory: bool) -> LookupFile:
        name = self._name(place, file.file_name)
        if in_memory:
            cached = self._cache.find(self._holder, name)
            if cached is None:
                raise NotInMemoryError
            return cached

        try:
            return self._cache.file(self._holder, name, self._copy_source(place, file, from_remote=True))
        except RemoteFileError as err:
            logger.warning("table %s: the data file is read in place of %s", self._table.name, err)
        return self._cache.file(self._holder, name, self._copy_source(place, file, from_remote=False))

    def _copy_source(self, place: Bucket, file: DataFile, *, from_remote: bool) -> CopySource:
        return CopySource(
            lambda: self._writer(place, file, from_remote=from_remote), lambda: self._form(place, file)
        )

    def _form(self, place: Bucket, file: DataFile) -> CopyForm:
        schema = self._ctx.schema
        digest = copy_digest(self._digest, *place, file)
        return CopyForm(digest, schema.trimmed_primary_keys, schema.key_type, file.row_count)

    @cached_property
    def _digest(self) -> bytes:
        ctx = self._ctx
        return table_digest(ctx.paths.table_path, ctx.schema, self._rows, self._options)

    def _writer(self, place: Bucket, file: DataFile, *, from_remote: bool) -> CopyWriter:
        """Return what makes the copy of a file, from its remote lookup file where there is one."""
        ctx = self._ctx.in_partition(place[0])
        file_place = FilePlace(ctx, ctx.bucket_dir(*place), file)
        whole = set(self._rows.columns) == set(ctx.schema.row_type.names)
        remote = find_remote_file(ctx, file_place.bucket_dir, file) if whole and from_remote else None
        copy = DataFileCopy(file_place, self._rows, self._options, remote)
        return copy.parts, copy.index

    def _name(self, place: Bucket, file_name: str) -> Hashable:
        """Return the name of a copy: queries of the same rows share it."""
        return self._kind, *place, file_name

    def _deleted_rows(self, deletion: DeletionFile, in_memory: bool) -> BitMap:
        deletions = self._vectors.get(deletion)
        if deletions is None:
            if in_memory:
                raise NotInMemoryError
            deletions = self._vectors[deletion] = load_deletions(self._ctx.file_io, deletion)
        return deletions

    def _replace(self, view: TableView) -> None:
        """Make `view` the state that lookups see, and release the copies of files that it does not have."""
        dropped = set(self._view.file_names()) - set(view.file_names())
        self._view = view
        self._vectors = {}
        self._sources = {}
        self._cache.release(self._holder, [self._name(*one) for one in dropped])

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidInputError(f"the query of table {self._table.name} is closed; create a new one")
