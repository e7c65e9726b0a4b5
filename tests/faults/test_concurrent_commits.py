"""Several writers and a compactor commit to one table at once: no commit is lost, none is applied twice."""

from __future__ import annotations

import multiprocessing
import threading
import uuid
from pathlib import Path

import pytest

from lakecore.clock import SystemClock
from lakecore.errors import CommitConflictError
from lakecore.fs.file_io import FileIO
from lakecore.fs.local import LocalFileIO
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.manifest.live_entries import live_entries
from tests.support.builders import commit_message, data_file, table_schema
from tests.support.commit_table import CommitTable

SCHEMA = table_schema(
    "k BIGINT",
    primary_keys=(),
    options={
        "bucket": "-1",
        "commit.max-retries": "500",
        "commit.max-retry-wait": "30 ms",
        "lakecore.commit.settle-time": "1 ms",  # no writer renames over a snapshot here
    },
)


def open_table(storage: FileIO, path: str) -> CommitTable:
    return CommitTable(SCHEMA, storage=storage, path=path, clock=SystemClock())


def append_rounds(storage: FileIO, path: str, user: str, rounds: int) -> None:
    table = open_table(storage, path)
    for number in range(rounds):
        message = commit_message(data_file(f"{user}-{number}", rows=1), total_buckets=-1)
        table.commit([message], identifier=number, commit_user=user)


def compact_rounds(storage: FileIO, path: str, user: str, rounds: int) -> None:
    """Join all live files into one, as often as it succeeds `rounds` times; rivals make it plan again."""
    table = open_table(storage, path)
    done = 0
    while done < rounds:
        latest = table.snapshots.latest()
        entries = (
            live_entries(table.manifests.read(table.manifests.data_manifests(latest))).rows()
            if latest
            else []
        )
        files = tuple(entry.file for entry in entries)
        if len(files) < 2:
            continue
        joined = data_file(f"joined-{user}-{uuid.uuid4().hex}", rows=sum(file.row_count for file in files))
        message = commit_message(compact_before=files, compact_after=(joined,), total_buckets=-1)
        try:
            table.commit([message], identifier=done, commit_user=user)
            done += 1
        except CommitConflictError as err:
            if not err.files:
                raise


def check(table: CommitTable, writers: dict[str, int], compactions: int) -> None:
    history = table.history()
    ids = [int(line.split()[0]) for line in history]
    assert ids == list(range(1, len(ids) + 1))
    assert len(ids) == sum(writers.values()) + compactions
    for user, rounds in writers.items():
        made = [line.split()[2] for line in history if f" {user}/" in line]
        assert made == [f"{user}/{number}" for number in range(rounds)]
    latest = table.snapshots.latest()
    assert latest is not None
    entries = live_entries(table.manifests.read(table.manifests.data_manifests(latest)))
    assert int(entries.row_count.sum()) == latest.total_record_count == sum(writers.values())
    table.referenced()
    assert table.orphans() == set()


def test_processes_on_a_local_disk(tmp_path: Path) -> None:
    storage, path = LocalFileIO(sync=False), f"{tmp_path}/t"
    table = open_table(storage, path).created()
    context = multiprocessing.get_context("spawn")
    writers = {"a": 50, "b": 50}
    workers = [
        context.Process(target=append_rounds, args=(storage, path, user, n)) for user, n in writers.items()
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    check(table, writers, 0)


def test_threads_in_memory() -> None:
    storage, path = MemoryFileIO(uuid.uuid4().hex), "memory://t/t"
    table = open_table(storage, path).created()
    writers = {f"w{number}": 10 for number in range(4)}
    failures: list[BaseException] = []

    def run(user: str, rounds: int) -> None:
        try:
            append_rounds(storage, path, user, rounds)
        except BaseException as err:
            failures.append(err)
            raise

    threads = [threading.Thread(target=run, args=item) for item in writers.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    check(table, writers, 0)


@pytest.mark.slow
def test_processes_and_two_compactors_for_hundreds_of_rounds(tmp_path: Path) -> None:
    storage, path = LocalFileIO(sync=False), f"{tmp_path}/t"
    table = open_table(storage, path).created()
    context = multiprocessing.get_context("spawn")
    writers = {"a": 150, "b": 150}
    jobs = [(append_rounds, user, n) for user, n in writers.items()]
    jobs += [(compact_rounds, user, 10) for user in ("x", "y")]
    compactions = 20
    workers = [context.Process(target=job, args=(storage, path, user, n)) for job, user, n in jobs]
    for worker in workers:
        worker.start()
    # compactors may wait for files once the writers are done: give them some
    for worker in workers[:2]:
        worker.join(300)
        assert worker.exitcode == 0
    extra = 0
    while any(worker.is_alive() for worker in workers):
        message = commit_message(data_file(f"extra-{extra}", rows=1), total_buckets=-1)
        table.commit([message], identifier=extra, commit_user="extra")
        extra += 1
        workers[2].join(0.3)
    assert [worker.exitcode for worker in workers] == [0] * 4
    check(table, {**writers, "extra": extra}, compactions)
