"""This module runs the services of a table in a thread while its writer continues.

It is the same path as that of services which a commit waits for (`lakecore.jobs.table_services`): each run is
the job `compact` with its lease, its proof and its own commit, then expiry. One run of a writer is under way
at a time, and sees all commits that were made before it began. A process that is killed loses only the
files of a compaction that was not committed: the next run plans it again.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Self

from lakecore.commit.request import CommitResult
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.executor import Executor, SerialExecutor
from lakecore.jobs.table_services import ServiceReports, TableServices
from lakecore.lsm.options import RUN_TRIGGER
from lakecore.maintain.retention_options import PARTITION_TIME
from lakecore.metadata.options import BucketMode, ChangelogProducer, MergeEngine
from lakecore.options import Option, parse_bool
from lakecore.scan.time_travel import FULL_COMPACTION_COMMITS
from lakecore.table import Table
from lakecore.write.stream_write import StreamWrite

__all__ = ["ConcurrentServices", "ServiceFigures"]

STOP_TRIGGER: Option[int | None] = Option(
    "num-sorted-run.stop-trigger",
    int,
    None,
    "Sorted runs from which a writer waits for its compaction, if that runs in a thread.",
)
_FORCE_COMPACT = Option(
    "commit.force-compact", parse_bool, False, "Whether every commit waits for its compaction."
)
_LOOKUP_WAIT = Option(
    "lookup-wait",
    parse_bool,
    True,
    "Whether a commit waits for the compaction that makes its rows visible, or its changelog.",
    old_keys=("changelog-producer.lookup-wait",),
)
_DEFAULT_ROOM = 3
"""Rule of the format: without the option a writer waits at three runs more than start a compaction."""
_MODES = (BucketMode.HASH_FIXED, BucketMode.HASH_DYNAMIC, BucketMode.BUCKET_UNAWARE)
"""A compaction leaves the places of keys in these tables as they are: the next rows find the same buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFigures:
    """These are the figures of concurrent services since they were made. Times are in milliseconds."""

    runs: int = 0
    """This is the number of runs that have ended."""
    compactions: int = 0
    """It counts the runs that compacted something."""
    failures: int = 0
    """It counts services that failed; the next run begins anew."""
    bytes_in: int = 0
    bytes_out: int = 0
    """Compactions read and wrote so many bytes of data files."""
    level_0_files: int = 0
    """The table had so many files at level 0 after the last compaction."""
    busy_millis: int = 0
    """Runs were under way for so long, the one of now included."""
    total_millis: int = 0
    """So long ago the services were made. `busy_millis` of it is the share of a busy thread."""
    waiting_millis: int = 0
    """This is how long commits waited, because runs had piled up."""
    behind: int = 0
    """So many commits were made since the run under way began, or since the last one."""


class ConcurrentServices:
    """They follow the commits of one stream, whose process commits from one thread: that of
    `new_stream_write`, or a query of `lakecore.spark.write_stream`, which takes this in place of the table.
    """

    def __init__(self, table: Table, executor: Executor | None = None) -> None:
        """Start nothing yet. `executor` runs the units of compactions, several at a time if it can; by
        default the thread runs them itself. It must have no other work, because `close` cancels it.

        Raises UnsupportedError for a table whose commits wait for their services, InvalidInputError for one
        without services.
        """
        _check(table)
        self.table = table
        """This is the table whose commits they follow."""
        self._room = _room(table)
        self._executor = executor or SerialExecutor()
        self._clock = table._stores.clock
        self._made_at = self._clock.now_ms()
        self._run_since: int | None = None
        self._figures = ServiceFigures()
        self._change = threading.Condition()
        self._next: CommitResult | None = None
        self._behind = 0
        self._thread: threading.Thread | None = None
        self._problems: list[str] = []
        self._closed = False

    def __enter__(self) -> Self:
        """Return these services."""
        return self

    def __exit__(self, *_: object) -> None:
        """Call `close`."""
        self.close()

    def new_stream_write(self, user: str, *, watermark: str | None = None) -> StreamWrite:
        """Start a write as `Table.new_stream_write` does; these services follow its commits. Its copies in
        other processes write rows only. Raises InvalidInputError after `close`.
        """
        self.check_open()
        return self.table.new_stream_write(user, watermark=watermark).with_services(self.after)

    def check_open(self) -> None:
        """Raise InvalidInputError after `close`."""
        if self._closed:
            raise InvalidInputError(
                f"table {self.table.name}: these concurrent services are closed, because their stream has "
                "ended; make new ones for each stream"
            )

    def after(self, result: CommitResult) -> CommitResult:
        """Let a run follow this commit, at once or behind the one that is under way. The result has notes
        on what has failed since the last call.

        It waits while more commits than `num-sorted-run.stop-trigger` allows were made since the run under
        way began: each may have added a sorted run to a bucket.
        """
        with self._change:
            if result.snapshot_ids and not result.duplicate and not self._closed:
                self._next = result
                self._behind += 1
                if self._thread is None:
                    # Not a daemon: a process that ends waits for what it began.
                    self._thread = threading.Thread(target=self._run, name=f"services {self.table.name}")
                    self._thread.start()
                began = self._clock.now_ms()
                self._change.wait_for(lambda: self._behind <= self._room or self._thread is None)
                waited = self._figures.waiting_millis + self._clock.now_ms() - began
                self._figures = replace(self._figures, waiting_millis=waited)
            problems, self._problems = tuple(self._problems), []
        return replace(result, notes=(*result.notes, *problems)) if problems else result

    def wait(self) -> None:
        """Wait until a run has followed every commit."""
        with self._change:
            self._change.wait_for(lambda: self._thread is None)

    def figures(self) -> ServiceFigures:
        """Return what the runs have done up to now, and how busy their thread was."""
        with self._change:
            now = self._clock.now_ms()
            busy = self._figures.busy_millis
            if self._run_since is not None:
                busy += now - self._run_since
            return replace(
                self._figures, busy_millis=busy, total_millis=now - self._made_at, behind=self._behind
            )

    def close(self) -> None:
        """Start no more runs and no more units of the run under way, and wait for its end. What is left to
        compact is left to the next writer.

        Where rows are visible after a compaction only, or have their changelog from one, the last run ends
        first.
        """
        if _visible_later(self.table):
            self.wait()
        with self._change:
            self._closed = True
            self._next = None
            thread = self._thread
        self._executor.cancel()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        try:
            while (result := self._take()) is not None:
                services = TableServices(self.table, executor=self._executor, on_reports=self._count)
                notes = services.after(replace(result, notes=()), ends_input=False).notes
                with self._change:
                    self._problems.extend(notes)
                    self._end_of_run(len(notes))
        finally:  # a writer that waits must not wait for a thread that has ended
            with self._change:
                if self._thread is threading.current_thread():
                    self._thread = None
                self._change.notify_all()

    def _count(self, reports: ServiceReports) -> None:
        """Add the figures of a run."""
        report = reports.compaction
        if report is None or report.error or report.skipped:
            return
        with self._change:
            figures = self._figures
            self._figures = replace(
                figures,
                compactions=figures.compactions + bool(report.picks_done),
                bytes_in=figures.bytes_in + report.bytes_in,
                bytes_out=figures.bytes_out + report.bytes_out,
                level_0_files=report.after.levels.get(0, 0),
            )

    def _end_of_run(self, failures: int) -> None:
        figures, since = self._figures, self._run_since
        busy = 0 if since is None else self._clock.now_ms() - since
        self._run_since = None
        self._figures = replace(
            figures,
            runs=figures.runs + 1,
            failures=figures.failures + failures,
            busy_millis=figures.busy_millis + busy,
        )

    def _take(self) -> CommitResult | None:
        """Return the newest commit that no run has followed; None ends the thread."""
        with self._change:
            result, self._next = self._next, None
            self._behind = 0
            if result is None:
                self._thread = None
            else:
                self._run_since = self._clock.now_ms()
            self._change.notify_all()
            return result


def _room(table: Table) -> int:
    """Return how many commits may be made during a run."""
    raw = table.schema.options
    trigger, stop = RUN_TRIGGER.read(raw), STOP_TRIGGER.read(raw)
    return _DEFAULT_ROOM if stop is None else max(stop - trigger, 0)


def _check(table: Table) -> None:
    if table.options.write_only:
        raise InvalidInputError(
            f"table {table.name}: it is write-only, so no services follow its commits; leave "
            "ConcurrentServices out"
        )
    reason = _reason_to_wait(table)
    if reason:
        raise UnsupportedError(
            f"table {table.name}: {reason}, so that a commit waits for its services; leave "
            "ConcurrentServices out, or set write-only=true and run lakecore compact --follow"
        )


def _reason_to_wait(table: Table) -> str:
    """Return why the next commit must not begin before the services have ended; empty without a reason."""
    options, raw = table.options, table.schema.options
    if options.bucket_mode not in _MODES:
        return "a compaction may change the buckets in which the next rows are placed"
    if options.changelog_producer is ChangelogProducer.FULL_COMPACTION:
        return f"its changelog is made by compactions (changelog-producer={options.changelog_producer.value})"
    if _LOOKUP_WAIT.read(raw) and (reason := _visible_later(table)):
        return f"{reason} and option {_LOOKUP_WAIT.key} is not false in the table"
    if FULL_COMPACTION_COMMITS.read(raw) is not None:
        return f"option {FULL_COMPACTION_COMMITS.key} counts commits up to a compaction"
    if _FORCE_COMPACT.read(raw):
        return f"option {_FORCE_COMPACT.key} says so"
    if PARTITION_TIME.read(raw) is not None:
        return f"expired partitions are removed by an overwrite ({PARTITION_TIME.key})"
    return ""


def _visible_later(table: Table) -> str:
    """Return which part of a commit its compaction makes visible; empty if there is none."""
    options = table.options
    if options.changelog_producer is ChangelogProducer.LOOKUP:
        return f"its changelog is made by compactions (changelog-producer={options.changelog_producer.value})"
    by_compaction = options.deletion_vectors or options.merge_engine is MergeEngine.FIRST_ROW
    if table.schema.primary_keys and by_compaction:
        return "its rows are visible after a compaction only"
    return ""
