"""Storage fails at operation 1, 2, 3, … of the files of a job, for who submits it and who runs it: a retry finishes the job, its commit is there once, and no row changes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.compact.engine.strategy import Strategy
from lakecore.errors import LakeError
from lakecore.executor import SerialExecutor
from lakecore.jobs.definitions.compaction import Compact
from lakecore.jobs.remote.record import JobFile, RunRecord, RunState
from lakecore.jobs.remote.runner import BeatTimes, JobRunner
from lakecore.jobs.remote.steps import step_of
from lakecore.jobs.remote.store import JobStore
from lakecore.jobs.remote.watch import JobWatch
from lakecore.metadata.snapshot import CommitKind
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import key_table, memory_catalog, put, rows_of

JOB = JobFile(
    id="j",
    steps=(
        step_of(
            Compact(
                table="d.k", strategy=Strategy.FULL, commit_user="u", commit_identifier=1 << 10, owner="j"
            )
        ),
    ),
)
NO_BEATS = BeatTimes(beat_s=1000.0, stale_s=30.0)


class JobsFail(FaultyFileIO):
    """Operations on the files of jobs count and fail; those on the table work."""

    def operation(self, name: str, path: str, effect: Callable[[], Any], torn: Any = None) -> Any:
        if "/.lakecore/jobs" in path:
            return super().operation(name, path, effect, torn)
        return effect()


def lake(name: str) -> FilesystemCatalog:
    catalog = memory_catalog(name)
    table = key_table(catalog)
    for number in range(3):
        put(table, [{"k": number % 2, "v": f"v{number}"}])
    return catalog


def submit_and_run(store: JobStore, catalog: FilesystemCatalog) -> Any:
    store.create(JOB)
    result = JobRunner(store, catalog, SerialExecutor(), NO_BEATS).run("j", "1")
    store.tidy("j")
    return result


@pytest.mark.parametrize("mode", list(FaultMode), ids=lambda mode: mode.value)
def test_every_operation_fails_once(mode: FaultMode) -> None:
    for fail_at in itertools.count(1):
        catalog = lake(f"job-{mode.value}")
        rows = rows_of(catalog.load_table("d.k"))
        storage = JobsFail(catalog.file_io, fail_at=fail_at, mode=mode)
        with suppress(LakeError, KeyboardInterrupt):
            submit_and_run(JobStore(storage, catalog.warehouse, FakeClock()), catalog)
        store = JobStore(catalog.file_io, catalog.warehouse, FakeClock())
        result = submit_and_run(store, catalog)
        assert result.state is RunState.DONE, f"{fail_at}: {storage.log}"
        table = catalog.load_table("d.k")
        kinds = [one.commit_kind for one in table.snapshots()]
        assert kinds.count(CommitKind.COMPACT) == 1, f"{fail_at}: {storage.log}"
        assert rows_of(table) == rows
        assert JobWatch(store, "j", 0, 60).look().status == "ended"
        assert submit_and_run(store, catalog) == result
        if not storage.fired:
            assert fail_at > 10
            break


def test_a_runner_that_loses_storage_for_a_while_gives_its_next_sign_of_life() -> None:
    catalog = lake("beats")
    storage = JobsFail(catalog.file_io)
    store = JobStore(storage, catalog.warehouse, FakeClock())
    store.create(JOB)

    class Failing(SerialExecutor):
        """Its first unit runs while storage fails for one sign of life."""

        def run(self, function: Any, tasks: Any) -> Any:
            import time

            storage.fail_at, begin = storage.count + 1, storage.count
            while storage.count < begin + 8:
                time.sleep(0.01)
            yield from super().run(function, tasks)

    result = JobRunner(store, catalog, Failing(), BeatTimes(beat_s=0.01)).run("j", "1")
    assert result.state is RunState.DONE
    path = f"{store.path('j')}/run-1.json"
    record = RunRecord.decoded(store.file_io.read(path), path)
    assert record.beat > 1
