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
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.executor import SerialExecutor
from lakecore.jobs.table_services import TableServices
from lakecore.lsm.options import RUN_TRIGGER
from lakecore.maintain.retention_options import PARTITION_TIME
from lakecore.metadata.options import BucketMode, ChangelogProducer, MergeEngine
from lakecore.options import Option, parse_bool
from lakecore.scan.time_travel import FULL_COMPACTION_COMMITS
from lakecore.table import Table
from lakecore.write.stream_write import StreamWrite

__all__ = ["ConcurrentServices"]

STOP_TRIGGER: Option[int | None] = Option(
    "num-sorted-run.stop-trigger",
    int,
    None,
    "Sorted runs from which a writer waits for its compaction, if that runs in a thread.",
)
_FORCE_COMPACT = Option(
    "commit.force-compact", parse_bool, False, "Whether every commit waits for its compaction."
)
_DEFAULT_ROOM = 3
"""Rule of the format: without the option a writer waits at three runs more than start a compaction."""


class ConcurrentServices:
    """They follow the commits of one stream, whose process commits from one thread: that of
    `new_stream_write`, or a query of `lakecore.spark.write_stream`, which takes this in place of the table.
    """

    def __init__(self, table: Table) -> None:
        """Start nothing yet. Raises UnsupportedError for a table whose commits wait for their services,
        InvalidInputError for one without services.
        """
        _check(table)
        self.table = table
        """This is the table whose commits they follow."""
        self._room = _room(table)
        self._executor = SerialExecutor()
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
                self._change.wait_for(lambda: self._behind <= self._room or self._thread is None)
            problems, self._problems = tuple(self._problems), []
        return replace(result, notes=(*result.notes, *problems)) if problems else result

    def wait(self) -> None:
        """Wait until a run has followed every commit."""
        with self._change:
            self._change.wait_for(lambda: self._thread is None)

    def close(self) -> None:
        """Start no more runs and no more units of the run under way, and wait for its end. What is left to
        compact is left to the next writer.
        """
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
                services = TableServices(self.table, executor=self._executor)
                notes = services.after(replace(result, notes=()), ends_input=False).notes
                with self._change:
                    self._problems.extend(notes)
        finally:  # a writer that waits must not wait for a thread that has ended
            with self._change:
                if self._thread is threading.current_thread():
                    self._thread = None
                self._change.notify_all()

    def _take(self) -> CommitResult | None:
        """Return the newest commit that no run has followed; None ends the thread."""
        with self._change:
            result, self._next = self._next, None
            self._behind = 0
            if result is None:
                self._thread = None
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
    if options.bucket_mode not in (BucketMode.HASH_FIXED, BucketMode.BUCKET_UNAWARE):
        return "a compaction may change the buckets or the hash indexes by which the next rows are placed"
    if options.changelog_producer in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION):
        return f"its changelog is made by compactions (changelog-producer={options.changelog_producer.value})"
    if options.deletion_vectors or options.merge_engine is MergeEngine.FIRST_ROW:
        return "its rows are visible after a compaction only"
    if FULL_COMPACTION_COMMITS.read(raw) is not None:
        return f"option {FULL_COMPACTION_COMMITS.key} counts commits up to a compaction"
    if _FORCE_COMPACT.read(raw):
        return f"option {_FORCE_COMPACT.key} says so"
    if PARTITION_TIME.read(raw) is not None:
        return f"expired partitions are removed by an overwrite ({PARTITION_TIME.key})"
    return ""
