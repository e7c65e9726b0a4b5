"""This module has streaming reads: they read the rows of a table, then the changes of one snapshot after the
other.

All state is one number, the next snapshot to read. A job that stores it together with its results of the
changes before it gets every change exactly once; a job that stores it later gets some twice after a crash. A
consumer is such a number, kept in the table: expiry keeps what it still needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.display import one_line
from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.fs.confined import rights_of
from lakecore.metadata.consumer import Consumer
from lakecore.metadata.snapshot import Snapshot
from lakecore.options import Option, parse_bool, parse_enum
from lakecore.read.source.batch import history_of
from lakecore.read.source.changed_rows import ChangedRows, ReplacedRows, StateRows
from lakecore.read.source.lineage.read_versions import report_reads
from lakecore.read.source.readable import Readable
from lakecore.read.source.resolve_blobs import with_resolved_blobs
from lakecore.read.source.scan import RowSource, Scan
from lakecore.read.source.stream_checks import check_same
from lakecore.read.source.stream_view import StreamSelection
from lakecore.scan.change_scanner import ChangeScanner
from lakecore.scan.startup import START_OPTIONS, Startup
from lakecore.scan.stream_policy import ChangeKind, StreamPolicy
from lakecore.scan.stream_start import StreamStart, stream_start
from lakecore.scan.support import check_emits_changes, check_streamable

__all__ = [
    "CONSUMER_ID",
    "CONSUMER_MODE",
    "IGNORE_PROGRESS",
    "Changes",
    "ConsumerMode",
    "Stream",
    "open_stream",
    "stream_startup",
]


class ConsumerMode(Enum):
    """This enum says what a consumer's position promises. Readers of Paimon go on at their own pace under
    `at-least-once`; a micro-batch ends for all of them at once, so both are the same here.
    """

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


CONSUMER_ID: Option[str | None] = Option("consumer-id", str, None, "Name under which the position is kept.")
CONSUMER_MODE = Option(
    "consumer.mode", parse_enum(ConsumerMode), ConsumerMode.EXACTLY_ONCE, "When the position is kept."
)
IGNORE_PROGRESS = Option("consumer.ignore-progress", parse_bool, False, "Start as if there were no consumer.")


@dataclass(frozen=True)
class Changes:
    """These are the changes of one snapshot, or the whole state at it. They are read when requested, any
    number of times.
    """

    snapshot: Snapshot
    """This is the snapshot whose changes these are."""
    next_snapshot: int
    """It says where a stream continues once these rows are processed."""
    full: bool
    """It tells whether these rows are the whole state, and not the changes of one snapshot."""
    rows: Scan
    """This is the scan that reads them."""
    parts: Sequence[Any]
    """These are the parts of the scan to read."""

    def __repr__(self) -> str:
        """Return on one line what was read; reads nothing."""
        facts = {"next snapshot": self.next_snapshot, "parts": len(self.parts)}
        return one_line("Changes", self.rows.source.description, facts)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the requested columns, then `_VALUE_KIND` (0 insert, 1 update before, 2 update after, 3
        delete).

        Rows of one key come in the order in which they were changed. Of a key that has moved between
        partitions, the delete of the old one may come after the row of the new one.
        """
        report_reads((self.rows,))
        for part in self.parts:
            yield from self.rows.read(part, kinds=True)


class Stream:
    """It iterates over the changes that exist by now; iterate again later for more.

    `ended` is set when the bound was reached. Nothing is prefetched. Raises NotFoundError when the next
    snapshot expired, or the table was rolled back or created again: each poll that finds a snapshot reads the
    one before it once more, if this stream has read that, too. A position that is a number tells nothing of
    the history before it.
    """

    def __init__(
        self,
        table: Readable,
        startup: Startup,
        selection: StreamSelection,
        *,
        consumer: str | None = None,
        position: int | StreamStart | None = None,
    ) -> None:
        """Open the stream. A `position`, or a start that was resolved before, takes precedence over
        `startup`.
        """
        self._table = table
        self._startup = startup
        self._selection = selection
        self._policy = StreamPolicy.from_schema(table.schema, table.options)
        self._history = history_of(table)
        self._scanner = ChangeScanner(table._scanner, table.schema)
        self.consumer = consumer
        """The consumer whose position is stored by `acknowledge`; None without one."""
        self._position = None if isinstance(position, StreamStart) else position
        self.watermark: int | None = None
        """The watermark of the last snapshot that was read, in milliseconds."""
        self.ended = False
        """Whether the bound of the stream was reached."""
        self._empty_at_first = table._stores.snapshots.latest_id() is None
        self._full: StreamStart | None = None
        self.last_snapshot: Snapshot | None = None
        """The last snapshot before the position that this stream has read; None: it began with a number."""
        if isinstance(position, StreamStart):
            self._begin_at(position)
        elif position is None:
            self._find_start()

    def __repr__(self) -> str:
        """Return name and position on one line; reads nothing."""
        facts = {
            "next snapshot": self.next_snapshot,
            "consumer": self.consumer,
            "watermark": self.watermark,
            "ended": self.ended or None,
        }
        return one_line("Stream", self._table.name, facts)

    @property
    def next_snapshot(self) -> int | None:
        """Return the position to store. None while everything is still to be read: the table has no snapshot
        yet, or the stream starts with the whole table, which was not polled yet. A stream that is opened with
        None and the same start reads all of it.
        """
        return self._position if self._full is None else None

    @property
    def start(self) -> StreamStart | None:
        """Return where a stream that was not polled begins; None while the table has no snapshot on which
        that depends.
        """
        if self._position is None:
            self._find_start()
        return self._full or (None if self._position is None else StreamStart(self._position))

    def __iter__(self) -> Iterator[Changes]:
        while (changes := self.poll()) is not None:
            yield changes

    def poll(self) -> Changes | None:
        """Return the next changes with at least one file; None when there are none by now, or at the end."""
        if self._position is None:
            self._find_start()
        if (full := self._full) is not None and full.full is not None:
            self._full = None
            return self._first(full, full.full)
        while not self.ended and self._position is not None:
            snapshot = self._next(self._position)
            if snapshot is None:
                return None
            self._position, self.last_snapshot = snapshot.id + 1, snapshot
            source = self._source(snapshot)
            if source is not None:
                self.watermark = snapshot.watermark
                rows = self._selection.scan(source, full=False)
                if parts := rows.plan():
                    return Changes(snapshot, snapshot.id + 1, False, rows, parts)
        return None

    def acknowledge(self, next_snapshot: int | None = None) -> None:
        """Store the position (by default the present one) in the table, for the consumer of this stream.

        Call it when the rows of all earlier snapshots are safe: expiry may then remove them.
        """
        position = self.next_snapshot if next_snapshot is None else next_snapshot
        if self.consumer is None:
            raise InvalidInputError(
                f"stream of {self._table.name}: the stream has no consumer; give its name (consumer=NAME)"
            )
        if position is not None:
            self._table._stores.consumers.write(self.consumer, position)

    def wait(self, seconds: float) -> None:
        """Wait for so many seconds, by the clock of the table."""
        self._table._stores.clock.sleep(seconds)

    def _find_start(self) -> None:
        start = stream_start(
            self._startup, self._table.schema.options, self._history, latest_from_first=self._empty_at_first
        )
        if start is not None:
            self._begin_at(start)

    def _begin_at(self, start: StreamStart) -> None:
        if start.full is not None:
            self._table._scanner.check(self._table.schema)
            self._full = start
        self._position = start.next_snapshot
        before = start.full or self._table._stores.snapshots.find(start.next_snapshot - 1)
        self.last_snapshot = before
        self.ended = before is not None and self._policy.ends_at(before)

    def _first(self, start: StreamStart, snapshot: Snapshot) -> Changes:
        self.watermark = snapshot.watermark
        context = self._table._read_context()
        state = StateRows(
            self._scanner,
            context,
            snapshot,
            self._policy.first_filter,
            start.created_ms,
            self._policy.emits_postponed,
        )
        rows = self._selection.scan(with_resolved_blobs(state, context), full=True)
        return Changes(snapshot, start.next_snapshot, True, rows, rows.plan())

    def _next(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot, if it can be read now. Sets `ended` at the bound."""
        snapshot = self._history.find(snapshot_id)
        if snapshot is None:
            self._check_range(snapshot_id)
            return None
        if (before := self.last_snapshot) is not None:
            check_same(self._table, before.id, before.time_millis, "start a new stream")
        self.ended = self._policy.ends_at(snapshot)
        if self.ended or self._policy.waits_for(snapshot, self._table._stores.clock.now_ms()):
            return None
        return snapshot

    def _source(self, snapshot: Snapshot) -> RowSource | None:
        context = self._table._read_context()
        match self._policy.changes_of(snapshot):
            case ChangeKind.NOTHING:
                return None
            case ChangeKind.REPLACED:
                return with_resolved_blobs(ReplacedRows(self._scanner, context, snapshot), context)
            case kind:
                postponed = self._policy.emits_postponed
                return with_resolved_blobs(
                    ChangedRows(self._scanner, context, (snapshot,), kind, postponed), context
                )

    def _check_range(self, snapshot_id: int) -> None:
        """Raise unless the snapshot merely does not exist yet. It looks again, for it may appear between two
        looks.
        """
        earliest, latest = self._history.earliest_id(), self._table._stores.snapshots.latest_id()
        range_text = f"snapshots {earliest} to {latest} exist" if latest is not None else "no snapshots exist"
        where = f"snapshot {snapshot_id} of {self._table._stores.paths.root}"
        if earliest is not None and earliest > snapshot_id and self._history.find(snapshot_id) is None:
            raise NotFoundError(
                f"{where}, which the stream needs next, has expired; {range_text}: start a new "
                "stream, and keep snapshots or "
                "changelogs longer, or name a consumer so that expiry waits"
            )
        if snapshot_id > (latest or 0) + 1 and self._history.find(snapshot_id) is None:
            raise NotFoundError(
                f"{where}, which the stream needs next, is after the latest; {range_text}: the table "
                "was rolled back, dropped, or created again; start a new stream"
            )


def stream_startup(
    raw: Mapping[str, str], snapshot: int | None, mode: str | None, timestamp_ms: int | None
) -> Startup:
    """Return the start that the caller requested, else that of the options `raw`. Raises
    InvalidOptionError.
    """
    starts = {"scan.mode": mode, "scan.snapshot-id": snapshot, "scan.timestamp-millis": timestamp_ms}
    settings = {key: str(value) for key, value in starts.items() if value is not None}
    others = {key: value for key, value in raw.items() if not settings or key not in START_OPTIONS}
    return Startup.from_options({**others, **settings})


def open_stream(
    table: Readable,
    startup: Startup,
    selection: StreamSelection,
    *,
    next_snapshot: int | StreamStart | None = None,
    consumer: str | None = None,
) -> Stream:
    """Open a stream from `next_snapshot`, which may be a start that was resolved before, else from the
    position of `consumer` (else option `consumer-id`), else from `startup`.

    The former two are positions: where they expired, changes are lost, and reading them is an error. A start
    that expired is replaced by the earliest snapshot. Raises PrivilegeError for a user who may not read rows,
    UnsupportedError for tables whose changes this release cannot read, InvalidInputError.
    """
    rights = rights_of(table._stores.file_io)
    if rights is not None:
        rights.check_select()
    check_streamable(table.name, table.schema)
    check_emits_changes(table.name, table.schema.options)
    name = consumer if consumer is not None else CONSUMER_ID.read(table.schema.options)
    if next_snapshot is None and name is not None and not IGNORE_PROGRESS.read(table.schema.options):
        stored_consumer = table._stores.consumers.find(name)
        next_snapshot = None if stored_consumer is None else _position_of(stored_consumer, table, startup)
    return Stream(table, startup, selection, consumer=name, position=next_snapshot)


def _position_of(consumer: Consumer, table: Readable, startup: Startup) -> int | StreamStart:
    """Return where a stream of the consumer begins: with a state that it has not read to its end, if there is
    one. Raises NotFoundError if that has expired.
    """
    if not consumer.reads_state:
        return consumer.next_snapshot
    snapshot = table._stores.snapshots.load(consumer.next_snapshot)
    return StreamStart(snapshot.id + 1, snapshot, startup.created_ms)
