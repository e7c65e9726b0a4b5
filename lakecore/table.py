"""The facade of one table: its description, reads and writes. It connects the packages below."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakecore.commit.author import Author
from lakecore.commit.committer import Committer
from lakecore.commit.request import CommitRequest, CommitResult, Overwrite, Preconditions
from lakecore.data_class import dataclass
from lakecore.display import html_table, one_line
from lakecore.errors import (
    InvalidInputError,
    LakeError,
    NotFoundError,
    explain,
)
from lakecore.fs.confined import rights_of
from lakecore.lineage.report import without_lineage
from lakecore.maintain.retention_options import SNAPSHOT_MAX, SNAPSHOT_MIN, SNAPSHOT_TIME, check_services
from lakecore.metadata.callbacks import callback_warnings
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.option_rules.checks import option_warnings
from lakecore.metadata.option_rules.reading_options import check_poll_options
from lakecore.metadata.option_rules.run_options import with_run_options
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.metadata.visibility import visibility_warnings
from lakecore.options import Option, option_texts
from lakecore.predicate.parse import parse_where
from lakecore.predicate.tree import Predicate
from lakecore.read.context import ReadContext
from lakecore.read.source.batch import batch_source, check_given_options, named_start
from lakecore.read.source.lineage.read_versions import report_lookup
from lakecore.read.source.scan import Scan
from lakecore.read.source.stream import Stream, open_stream, stream_startup
from lakecore.read.source.stream_view import StreamSelection, TableRows
from lakecore.row.partition_values import partition_specs
from lakecore.scan.scanner import Scanner
from lakecore.scan.startup import Incremental
from lakecore.scan.stream_policy import ChangelogMode
from lakecore.scan.support import (
    check_deletable,
    check_rows_updatable,
    check_updatable,
    check_writable,
)
from lakecore.scan.time_travel import TimeTravel
from lakecore.store.external_places import check_external_paths
from lakecore.store.schemas import SchemaStore
from lakecore.store.table_stores import TableStores
from lakecore.write.batch_write import BatchWrite
from lakecore.write.options import WriteRules
from lakecore.write.row_level.assignments import Assignments
from lakecore.write.row_level.changes import DeleteWhere, UpdateWhere
from lakecore.write.row_level.clauses import MergeRules
from lakecore.write.row_level.counted_rows import MergedRows
from lakecore.write.row_level.merge import MergeInto
from lakecore.write.row_level.run import change_rows
from lakecore.write.rows.event_time import WATERMARK_COLUMN, EventTime
from lakecore.write.rows.incoming import batches_of
from lakecore.write.session import WriteSession
from lakecore.write.stream_write import StreamWrite
from lakecore.write.update.column_update import ColumnUpdate, UpdatedRows
from lakecore.write.update.row_deletion import DeletedRows, RowDeletion

if TYPE_CHECKING:
    from lakecore.lookup.query.local_query import LocalTableQuery
    from lakecore.lookup.query.lookup_cache import LookupCache
    from lakecore.lookup.tables.lookup_table import LookupTable
    from lakecore.maintain.analyze.statistics import Statistics

__all__ = ["Commit", "DeletedRows", "Scan", "Table", "UpdatedRows"]

logger = logging.getLogger(__name__)

_SERVICES = (
    *(one.key for one in (SNAPSHOT_MAX, SNAPSHOT_MIN, SNAPSHOT_TIME)),
    "full-compaction.delta-commits",
    "commit.force-compact",
    "num-sorted-run.stop-trigger",
    "lookup-wait",
    "changelog-producer.lookup-wait",
    "snapshot.expire.execution-mode",
    "partition.expiration-time",
    "consumer.expiration-time",
)
"""These options ask writers for services after their commits."""

_BATCH_BUCKETS = "postpone.batch-write-fixed-bucket"
_FORCE = "commit.force-create-snapshot"
_USER_PREFIX = Option("commit.user-prefix", str, "", "The begin of fresh commit users.")

Partitions = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """It says who commits a write. The pair (user, identifier) is one commit: repeating a pair writes
    nothing new.
    """

    user: str | None = None
    """None means a fresh user."""
    identifier: int = 1
    """This is the number of the commit among those of the user."""
    watermark: int | None = None
    """It is in milliseconds."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """These properties are stored in the snapshot."""


@dataclass(frozen=True)
class Table:
    """This is a table, or a branch of one, as its latest schema described it when it was loaded. It can be
    pickled.

    A catalog makes it: `load_table`, `create_table`. Attributes with a leading underscore are internal: the
    packages of lakecore share them, and they change without notice.
    """

    name: str
    """This is the full name, `db.t` or `db.t$branch_b`."""
    _stores: TableStores
    """Where snapshots, schemas, manifests and the other parts are stored."""
    _overrides: Mapping[str, str] = field(default_factory=dict)
    """Options that hold for this handle only."""

    def __repr__(self) -> str:
        """Return name and schema on one line; reads nothing."""
        return one_line("Table", self.name, self._facts())

    def _repr_html_(self) -> str:
        """Return a small table for notebooks, with the latest snapshot, which is read for it."""
        return html_table("Table", self.name, {**self._facts(), "latest snapshot": self._latest_text()})

    def _facts(self) -> dict[str, object]:
        schema = self.schema
        return {
            "schema": schema.id,
            "columns": schema.row_type.names,
            "primary key": _names_of(schema.primary_keys),
            "partitioned by": _names_of(schema.partition_keys),
            "path": self.path,
        }

    def _latest_text(self) -> str:
        """Return the latest snapshot as text; of damaged or unreachable storage what is wrong."""
        try:
            latest = self.latest_snapshot()
        except LakeError as err:
            return f"cannot be read: {explain(err)}"
        return "none" if latest is None else repr(latest)

    @property
    def schema(self) -> TableSchema:
        """Return columns, keys and options, as of the load, with the options of this handle."""
        return self._stores.schema

    @property
    def path(self) -> str:
        """Return the directory of the table; that of a branch is below it."""
        return self._stores.paths.table_path

    @cached_property
    def options(self) -> TableOptions:
        """Return the typed view of `schema.options`. Raises InvalidOptionError."""
        return TableOptions.from_schema(self.schema)

    @property
    def changelog_mode(self) -> ChangelogMode:
        """Return which kinds of rows a stream of the table can have."""
        return ChangelogMode.of_table(self.schema, self.options)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Reasons why written rows may not be readable, and listeners that are not notified; empty for most
        tables.
        """
        return visibility_warnings(self.schema, self.options) + callback_warnings(self.schema.options)

    def latest_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot, None before the first. It costs two reads."""
        return self._stores.snapshots.latest()

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """Return one snapshot. Raises NotFoundError that names the available ones, CorruptDataError."""
        return self._stores.snapshots.load(snapshot_id)

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield the snapshots that exist, newest first. Each costs a read when it is requested; those that
        expire meanwhile are left out.
        """
        store = self._stores.snapshots
        for snapshot_id in reversed(store.list_ids()):
            snapshot = store.find(snapshot_id)
            if snapshot is not None:
                yield snapshot

    def tags(self) -> dict[str, Snapshot]:
        """Return the tags in the order of their names, with their snapshots. Each costs a read; those that
        are deleted meanwhile are left out.
        """
        store, tags = self._stores.tags, {}
        for name in store.list():
            with suppress(NotFoundError):
                tags[name] = store.load(name)
        return tags

    def branches(self) -> tuple[str, ...]:
        """Return the names of the branches in order, without `main`. For a branch see `at_branch`."""
        return self._stores.branches.list()

    def _check_select(self) -> None:
        """Raise PrivilegeError for a user of the catalog who may not read rows."""
        rights = rights_of(self._stores.file_io)
        if rights is not None:
            rights.check_select()

    def _check_insert(self) -> None:
        """Raise PrivilegeError for a user of the catalog who may not change the table."""
        rights = rights_of(self._stores.file_io)
        if rights is not None:
            rights.check_insert()

    @cached_property
    def _scanner(self) -> Scanner:
        return Scanner(self.name, self._stores)

    def _committer(self) -> Committer:
        """Publishes commit messages of writers and compactors."""
        return Committer(self._stores, self._overrides)

    def _read_context(self, schema: TableSchema | None = None) -> ReadContext:
        """Return what readers of splits need; `schema` is that of the snapshot that is read, else the
        latest.
        """
        stores = self._stores
        return ReadContext(stores.file_io, stores.paths, schema or self.schema, stores.schemas)

    def with_options(self, options: Mapping[str, str]) -> Table:
        """Return the same table with options that hold for this handle only.

        Raises InvalidInputError for options that determine the layout of stored rows, InvalidOptionError for
        unknown options and wrong values.
        """
        texts = option_texts(options)
        stores = replace(self._stores, schema=with_run_options(self.schema, texts))
        return replace(self, _stores=stores, _overrides={**self._overrides, **texts})

    def _at_schema(self, schema: TableSchema) -> Table:
        """Return the table as an earlier schema describes it. It is for reading only."""
        return replace(self, _stores=replace(self._stores, schema=schema))

    def at_branch(self, branch: str) -> Table:
        """Return the branch of that name. Raises NotFoundError naming the existing branches."""
        paths = self._stores.branches.open(branch)
        schema = SchemaStore(self._stores.file_io, paths, self._stores.clock).latest()
        if schema is None:
            raise InvalidInputError(f"branch {branch!r} of {self.name} has no schema; run fsck")
        stores = replace(self._stores, schema=schema, paths=paths)
        table = replace(self, _stores=stores, _overrides={})
        return table.with_options(self._overrides) if self._overrides else table

    def scan(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        branch: str | None = None,
        timestamp_ms: int | None = None,
        watermark: int | None = None,
        version: str | None = None,
        incremental: str | Incremental | None = None,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Scan:
        """Prepare a batch read of the snapshot that is named, of what the options `scan.*` say, or of the
        latest.

        Give at most one of snapshot, tag, timestamp_ms, watermark (milliseconds) and version (a tag, a
        snapshot id or `watermark-<ms>`). `incremental` reads what changed: `5..9` or two tags or times; see
        `Incremental`. No rows are read yet, but the snapshot is chosen. Raises NotFoundError,
        InvalidInputError for an unknown column or a malformed `where`, InvalidOptionError for an option
        of the handle that is for other reads, UnsupportedError for tables this release cannot read.
        """
        self._check_select()
        table = self._on(branch)
        travel = TimeTravel(
            snapshot=snapshot, tag=tag, timestamp_ms=timestamp_ms, watermark=watermark, version=version
        )
        interval = Incremental.parse(incremental) if isinstance(incremental, str) else incremental
        startup = named_start(table, travel, interval)
        check_given_options(table, startup)
        return Scan.of(batch_source(table, startup), where, columns, limit)

    def stream(
        self,
        *,
        snapshot: int | None = None,
        mode: str | None = None,
        timestamp_ms: int | None = None,
        next_snapshot: int | None = None,
        branch: str | None = None,
        consumer: str | None = None,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        update_before: bool = True,
        as_written: bool = False,
    ) -> Stream:
        """Open a streaming read: iterate it for the changes of one snapshot after the other, with row kinds.

        It starts with the changes of `snapshot`; or as `mode` (a `scan.mode`) or the options `scan.*` say; by
        default with the whole table, then its changes. Instead it continues at `next_snapshot`, which an
        earlier stream returned, or at the position of `consumer`. Without `update_before` rows of kind `-U`
        are left out (see `changelog_mode`). Raises InvalidInputError, InvalidOptionError for an option of the
        handle that is for other reads, UnsupportedError for tables whose
        changes this release cannot read, and, unless `as_written`, for those that have only parts of rows:
        merge engines partial-update and aggregation without a changelog producer.
        """
        table = self._on(branch)
        check_poll_options(table._overrides, table.schema, consumer)
        return open_stream(
            table,
            stream_startup(table.schema.options, snapshot, mode, timestamp_ms),
            StreamSelection.of(
                TableRows.of_table(table, update_before=update_before, as_written=as_written), where, columns
            ),
            next_snapshot=next_snapshot,
            consumer=consumer,
        )

    def new_query(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: str | Predicate | None = None,
        cache: LookupCache | None = None,
    ) -> LocalTableQuery:
        """Open a query that looks rows up by primary key, with these columns or all. It has no files before
        its first `refresh`.

        A key whose current row does not satisfy `where` has no row. `cache` keeps the local copies of data
        files; None: that of the process, below TMPDIR.

        Close it, or use it as a context manager. Raises UnsupportedError for a table whose rows cannot be
        looked up.
        """
        from lakecore.lookup.query.local_query import LocalTableQuery  # rare, and `lookup` imports much

        self._check_select()
        return LocalTableQuery(self, columns, where, cache)

    def new_lookup(
        self,
        on: Sequence[str],
        *,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        buckets: Iterable[int] | None = None,
        directory: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> LookupTable:
        """Load a lookup table: it finds the rows that have given values in the columns `on`, and follows the
        table by its options `lookup.*`, or by `options` (docs/lookup_join.md). Keys are asked of the query
        service of the table where one is registered, if `on` is the primary key.

        Found rows have `columns`, by default all, and meet `where`. With `buckets` only these are loaded.
        Files without names, for large tables, are in `directory`, by default that of the system for
        temporary files. Raises UnsupportedError for a table whose changes do not tell its rows,
        InvalidOptionError for an option without effect, InvalidInputError, UnavailableError.
        """
        from lakecore.lookup.tables.lookup_options import check_given  # rare, and `lookup` imports much
        from lakecore.lookup.tables.lookup_table import LookupTable, checked_request
        from lakecore.service.remote_query import open_service

        self._check_select()
        check_given(options or {})
        table = self.with_options(options) if options else self
        request = checked_request(
            table, on, columns=columns, where=where, buckets=buckets, directory=directory
        )
        with without_lineage():
            lookup = LookupTable(table, request, lambda: open_service(table))
        report_lookup(table, lookup.snapshot_id, request.columns)
        return lookup

    def _on(self, branch: str | None) -> Table:
        return self if branch is None or branch == self._stores.paths.branch else self.at_branch(branch)

    def append(self, data: Any, commit: Commit | None = None) -> CommitResult:
        """Add rows to a table without primary key.

        `data` is an Arrow table, batches or reader, or a pandas DataFrame; it is streamed, columns are
        matched by name. All rows become visible in one snapshot or none does; without rows there is no
        snapshot. Raises InvalidInputError naming column and row, UnsupportedError before anything is written.
        """
        if self.schema.primary_keys:
            raise InvalidInputError(f"table {self.name} has a primary key: use upsert")
        return self.write(data, commit)

    def upsert(self, data: Any, commit: Commit | None = None) -> CommitResult:
        """Insert or replace rows by primary key, or as the text column `_kind` (+I, -U, +U, -D) says.

        Later rows of a key win, unless the table has sequence fields. Data and errors are those of `append`.
        When two processes write rows of one key at once, either may win.
        """
        if not self.schema.primary_keys:
            raise InvalidInputError(f"table {self.name} has no primary key: use append")
        return self.write(data, commit)

    def write(self, data: Any, commit: Commit | None = None) -> CommitResult:
        """Call `append` or `upsert`, whichever the table supports.

        Where buckets are looked up (bucket=-1 with a primary key), rows conflict with keys that others placed
        in the same partition meanwhile: they are placed again when `data` can be read again, else
        CommitConflictError is raised, and nothing was written. It neither compacts nor expires: see
        `new_batch_write`.
        """
        self._warn_of_services()
        return self._add(data, commit)

    def _add(self, data: Any, commit: Commit | None) -> CommitResult:
        return self._session(self._with_user(commit)).add(data)

    def _warn_of_services(self) -> None:
        services = [key for key in _SERVICES if key in self.schema.options]
        if services and not self.options.write_only:
            logger.warning(
                "%s: option %s has no effect on this write, which neither compacts nor expires; write with "
                "new_batch_write or the command write, or run compact and expire-snapshots",
                self.name,
                services[0],
            )

    def delete(self, where: str | Predicate, commit: Commit | None = None) -> DeletedRows:
        """Delete the rows for which `where` is true, in one snapshot; without such rows there is none.

        Append tables need option `deletion-vectors.enabled`. With a primary key, deletes (-D) are written for
        the matching keys; where others commit rows of these keys, or an overwrite, meanwhile, the rows are
        looked up again. Rows of level 0 count, also where reads do not show them before a compaction, as with
        deletion vectors; there the deletes take effect with that compaction. Raises UnsupportedError before
        anything is written, CommitConflictError when other commits won every retry.
        """
        self._check_select()
        self._check_insert()
        check_deletable(self.name, self.schema, self.options)
        predicate = parse_where(where, self.schema.row_type) if isinstance(where, str) else where
        author = self._with_user(commit)
        self._warn_of_services()
        if self.schema.primary_keys:
            result = change_rows(self._session(author), lambda: DeleteWhere(predicate))
            return DeletedRows(result.deleted, result.commit)
        deletion = RowDeletion(self._scanner, self._read_context())
        return deletion.run(predicate, lambda messages: self._commit(messages, author))

    def update(
        self,
        set: Mapping[str, Any],
        where: str | Predicate | None = None,
        commit: Commit | None = None,
    ) -> UpdatedRows:
        """Set columns of the rows for which `where` is true (None: of all), in one snapshot.

        A value is a literal or an `Expression` of pyarrow.compute over the columns of the row. With a primary
        key, rows are written as +U, for `merge-engine` deduplicate and partial-update; where others commit
        rows of these keys, or an overwrite, meanwhile, the rows are read again. Other tables replace rows by
        deletion vectors, or without them write their data files anew. Raises InvalidInputError for a column
        of the key and for values that do not fit, UnsupportedError before anything is written,
        CommitConflictError when other commits won every retry.
        """
        self._check_select()
        check_rows_updatable(self.name, self.schema, self.options)
        assignments = Assignments(self.schema, self.options, set)
        assignments.check()
        predicate = parse_where(where, self.schema.row_type) if isinstance(where, str) else where
        self._warn_of_services()
        session = self._session(self._with_user(commit))
        result = change_rows(session, lambda: UpdateWhere(predicate, assignments))
        return UpdatedRows(result.updated, result.commit)

    def merge(
        self, source: Any, on: Sequence[str], rules: MergeRules | None = None, commit: Commit | None = None
    ) -> MergedRows:
        """Merge the rows of `source` into the table, by the equality of the columns `on`, in one snapshot:
        rows that match are updated or deleted, others are inserted, as `rules` say. Clauses of `rules` may
        have conditions; the first one that is true applies.

        `source` is an Arrow table, batches or reader, or a pandas DataFrame, and is held in memory. How rows
        are written, the errors and the words on other writers are those of `update`; with a primary key `on`
        has all its columns, and deletes are for `merge-engine` deduplicate. Raises InvalidInputError, before
        anything is committed, when two rows of the source match one row.
        """
        self._check_select()
        clauses = rules or MergeRules()
        check_rows_updatable(self.name, self.schema, self.options)
        if self.schema.primary_keys and clauses.deletes:
            check_deletable(self.name, self.schema, self.options)
        rows = pa.Table.from_batches(batches) if (batches := list(batches_of(source))) else None
        if rows is None:
            raise InvalidInputError(
                "the source of a merge has no columns; give an Arrow table with its schema"
            )
        assignments = Assignments(self.schema, self.options, clauses.set)
        self._warn_of_services()
        session = self._session(self._with_user(commit))
        return change_rows(session, lambda: MergeInto(rows, tuple(on), clauses, assignments))

    def update_columns(self, data: pa.Table, commit: Commit | None = None) -> UpdatedRows:
        """Give rows new values, in one snapshot: `data` has their `_ROW_ID` and the columns to change.

        It is for tables with `data-evolution.enabled`; `t$row_tracking` shows the ids. Only these columns are
        written, for every row of the files that are touched; other columns stay in their files. Of two
        updates of the same rows at once the second is planned again. Raises InvalidInputError for ids of no
        row, UnsupportedError for columns in vector files, CommitConflictError when others won every retry.
        """
        self._check_insert()
        check_updatable(self.name, self.schema, self.options)
        self._warn_of_services()
        author = self._with_user(commit)
        update = ColumnUpdate(self._scanner, self._read_context())
        return update.run(data, lambda messages, base: self._commit(messages, author, preconditions=base))

    def overwrite(
        self,
        data: Any,
        partitions: Partitions | None = None,
        *,
        dynamic: bool | None = None,
        commit: Commit | None = None,
    ) -> CommitResult:
        """Replace the rows of `partitions`, or of the partitions that `data` has rows for (`dynamic`), or all
        rows.

        `partitions` is `dt=a,hh=b;dt=c` or mappings of column to value; rows of other partitions are refused,
        and without rows these partitions are emptied. None: dynamic as option `dynamic-partition-overwrite`
        says (by default yes for partitioned tables). Where keys may move between partitions, rows are written
        as `upsert` would after the partitions were emptied: also keys of other partitions move, are merged
        into or left out, as the merge engine says. Data and errors are those of `append`.
        """
        self._warn_of_services()
        return self._replace(data, self._overwrite(partitions, dynamic), commit)

    def _replace(self, data: Any, replaced: Overwrite, commit: Commit | None) -> CommitResult:
        author = self._with_user(commit)
        if self.options.bucket_mode is BucketMode.KEY_DYNAMIC and replaced != Overwrite.table():
            return self._session(author).add(data, replace(replaced, append_elsewhere=True))
        return self._session(author).overwrite(data, replaced)

    def statistics(self) -> Statistics | None:
        """Return the statistics for planners that the latest snapshot has, or took over from the one before;
        None without any. Raises CorruptDataError.
        """
        from lakecore.maintain.analyze.apply import read_statistics  # few callers ask for them

        self._check_select()
        return read_statistics(self._stores)

    def update_statistics(self, statistics: Statistics, *, commit: Commit | None = None) -> int:
        """Commit statistics that the caller computed, in place of those there are, and return the id of the
        new snapshot, which has the same rows. The job `analyze` computes them.

        Their schema is the latest, whatever `schema_id` they have. Raises InvalidInputError for another
        column or value, for a snapshot that does not exist, and for a commit with a watermark or properties,
        and CommitConflictError.
        """
        from lakecore.maintain.analyze.apply import update_statistics  # few callers give them

        self._check_insert()
        author = self._with_user(commit)
        if author.watermark is not None or author.properties:
            raise InvalidInputError(
                f"{self.name}: a commit of statistics has no watermark or properties; leave them out"
            )
        name = Author(author.user or self._fresh_user(), author.identifier)
        return update_statistics(self.name, self._stores, statistics, name)

    def new_batch_write(
        self,
        *,
        overwrite: bool = False,
        partitions: Partitions | None = None,
        dynamic: bool | None = None,
        commit: Commit | None = None,
    ) -> BatchWrite:
        """Start a write of many writers, each of which gets a pickled copy; see `BatchWrite`.

        `partitions` and `dynamic` say what an overwrite replaces, as in `overwrite`. Rows conflict with
        commits after this call as those of `write` do. Raises UnsupportedError before anything is written.
        """
        if not overwrite and (partitions is not None or dynamic is not None):
            raise InvalidInputError("partitions and dynamic define what an overwrite replaces; set overwrite")
        replaced = self._overwrite(partitions, dynamic) if overwrite else None
        check_services(self.schema.options)
        return BatchWrite.begin(self, self._with_user(commit), replaced)

    def new_stream_write(self, user: str, *, watermark: str | None = None) -> StreamWrite:
        """Start a write of many commits, each with a number, exactly once; see `StreamWrite`.

        `user` is the commit user: it names the stream, is the same after every restart, and nobody else
        commits under it. With `watermark` (`ts - 5 s`: a TIMESTAMP column, less a delay) the watermark of a
        commit is the latest event time of its rows, less the delay, unless that of the snapshot before is
        higher; the option `write.watermark` says it for all writes. Raises InvalidInputError,
        UnsupportedError before anything is written.
        """
        if watermark is not None:
            return self.with_options({WATERMARK_COLUMN.key: watermark}).new_stream_write(user)
        check_services(self.schema.options)
        return StreamWrite.begin(self._of_streams(), user)

    def _of_streams(self) -> Table:
        """Return the table as streams write it: only batch writes assign postponed buckets at once."""
        postponed = self.options.bucket_mode is BucketMode.POSTPONE
        return self.with_options({_BATCH_BUCKETS: "false"}) if postponed else self

    def _overwrite(self, partitions: Partitions | None, dynamic: bool | None) -> Overwrite:
        if partitions is not None:
            if dynamic:
                raise InvalidInputError("partitions and dynamic exclude each other; give only one of them")
            default = self.options.partition_default_name
            return Overwrite.static(*partition_specs(partitions, self.schema.partition_type, default))
        if dynamic is None:
            dynamic = WriteRules.from_options(self.schema.options).dynamic_overwrite
        return Overwrite.dynamic() if dynamic and self.schema.partition_keys else Overwrite.table()

    def _session(self, commit: Commit) -> WriteSession:
        """Return what writes rows and commits them under the name of `commit`. Raises UnsupportedError for a
        table that cannot be written to.
        """
        self._check_insert()
        check_writable(self.name, self.schema, self.options)
        check_external_paths(self.name, self.schema.options, self._stores.file_io)
        EventTime.of_table(self.schema.row_type, self.schema.options)  # raises for an option that is wrong
        for warning in (*self.warnings, *option_warnings(self.schema.options)):
            logger.warning("%s: %s", self.name, warning)

        def publish(
            messages: Sequence[CommitMessage],
            overwrite: Overwrite | None,
            preconditions: Preconditions | None,
            *,
            allow_empty: bool,
            watermark: int | None = None,
        ) -> CommitResult:
            name = commit if commit.watermark is not None else replace(commit, watermark=watermark)
            return self._commit(messages, name, overwrite, preconditions, allow_empty=allow_empty)

        return WriteSession(
            name=self.name,
            stores=self._stores,
            scanner=self._scanner,
            reading=self._read_context(),
            user=commit.user or "lakecore",
            commit=publish,
            forces_snapshot=self._forces_snapshot,
        )

    def _with_user(self, commit: Commit | None) -> Commit:
        author = commit or Commit()
        return author if author.user else replace(author, user=self._fresh_user())

    def _commit(
        self,
        messages: Sequence[CommitMessage],
        commit: Commit,
        overwrite: Overwrite | None = None,
        preconditions: Preconditions | None = None,
        *,
        allow_empty: bool = False,
    ) -> CommitResult:
        result = self._committer().commit(
            messages,
            CommitRequest(
                user=commit.user or self._fresh_user(),
                identifier=commit.identifier,
                overwrite=overwrite,
                watermark=commit.watermark,
                properties=commit.properties,
                preconditions=preconditions,
                allow_empty=allow_empty,
            ),
        )
        if result.snapshot_ids:
            self._tag_after_commit(wrote=True)
        return result

    def _after_commit(self, result: CommitResult, *, ends_input: bool) -> CommitResult:
        """Run the services that follow a commit, unless the table is write-only. Never fails."""
        if self.options.write_only or result.duplicate or not result.snapshot_ids:
            return result
        from lakecore.jobs.table_services import TableServices  # jobs are above tables

        return TableServices(self).after(result, ends_input=ends_input)

    def _forces_snapshot(self) -> bool:
        """Return whether a write without rows makes a snapshot. It costs nothing where no option may require
        it.
        """
        if not any(key in self.schema.options for key in ("tag.automatic-creation", _FORCE)):
            return False
        from lakecore.maintain.auto_tags.force import forces_snapshot

        return forces_snapshot(self.name, self._stores)

    def _tag_after_commit(self, *, wrote: bool) -> None:
        """Create the automatic tags that the table's options define. `wrote`: after a write, not a
        compaction.

        Never fails. It costs nothing without option tag.automatic-creation.
        """
        if "tag.automatic-creation" in self.schema.options:
            from lakecore.maintain.auto_tags.after_commit import tag_after_commit  # rare, half of maintain

            tag_after_commit(self.name, self._stores, wrote=wrote)

    def _fresh_user(self) -> str:
        prefix = _USER_PREFIX.read(self.schema.options).strip() or "lakecore"
        return f"{prefix}_{self._stores.clock.fresh_id()}"


def _names_of(names: Sequence[str]) -> str:
    return f"({', '.join(names)})" if names else ""
