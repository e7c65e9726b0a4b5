"""A runner claims a job, gives signs of life and writes how it ended; a second one stops, and a dead one is noticed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.compact.engine.strategy import Strategy
from lakecore.errors import BusyError, CorruptDataError, NotFoundError
from lakecore.executor import SerialExecutor
from lakecore.jobs.definitions.compaction import Compact, CompactDatabase
from lakecore.jobs.definitions.repair import Fsck
from lakecore.jobs.definitions.tags import ExpireTags
from lakecore.jobs.remote.record import JobFile, RunRecord, RunState, StepState
from lakecore.jobs.remote.runner import BeatTimes, JobRunner
from lakecore.jobs.remote.steps import step_of
from lakecore.jobs.remote.store import JobStore
from lakecore.jobs.remote.watch import JobWatch
from lakecore.maintain.attempts.store import AttemptStore
from lakecore.maintain.lease.process import this_process
from lakecore.metadata.snapshot import CommitKind
from tests.support.fake_clock import FakeClock
from tests.support.lake import key_table, memory_catalog, put, rows_of

TABLE = "d.k"
FAST = BeatTimes(beat_s=0.01, stale_s=60.0)
COMPACT = Compact(table=TABLE, strategy=Strategy.FULL, commit_user="u", commit_identifier=1 << 10, owner="j")


@pytest.fixture
def catalog(request: pytest.FixtureRequest) -> FilesystemCatalog:
    lake = memory_catalog(f"remote-{request.node.name}")
    table = key_table(lake)
    for number in range(4):
        put(table, [{"k": number % 2, "v": f"v{number}"}])
    return lake


def store_of(lake: FilesystemCatalog, *jobs: Any, **given: Any) -> JobStore:
    store = JobStore(lake.file_io, lake.warehouse, FakeClock())
    store.create(JobFile(id="j", steps=tuple(step_of(job) for job in jobs or (COMPACT,)), **given))
    return store


def run(
    store: JobStore, lake: FilesystemCatalog, executor: Any = None, submission: str = "", **given: Any
) -> Any:
    return JobRunner(store, lake, executor or SerialExecutor(), FAST, **given).run("j", submission)


def compactions(lake: FilesystemCatalog) -> int:
    snapshots = lake.load_table(TABLE).snapshots()
    return sum(one.commit_kind is CommitKind.COMPACT for one in snapshots)


class Slow:
    """It runs its first unit only when it is told to, or cancelled."""

    name = "local"
    parallelism = 1
    startup_seconds = 0.0

    def __init__(self) -> None:
        self.begun, self.go_on, self.cancelled = threading.Event(), threading.Event(), False

    def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        self.begun.set()
        assert self.go_on.wait(20)
        if not self.cancelled:
            yield from SerialExecutor().run(function, tasks)

    def check(self) -> None: ...

    def cancel(self) -> None:
        self.cancelled = True
        self.go_on.set()


def test_a_job_is_run_once_and_its_report_is_that_of_the_job(catalog: FilesystemCatalog) -> None:
    store = store_of(catalog, origin={"dag": "nightly", "run": "r1"})
    before = rows_of(catalog.load_table(TABLE))
    first = run(store, catalog)
    assert (first.state, compactions(catalog)) == (RunState.DONE, 1)
    [step] = first.steps
    assert step.report is not None
    assert (step.report["before"]["files"], step.report["after"]["files"]) == (4, 1)
    assert run(store, catalog) == first, "a second start takes the result"
    assert compactions(catalog) == 1
    assert rows_of(catalog.load_table(TABLE)) == before
    attempts = AttemptStore(catalog.file_io, catalog.warehouse).read(0, store.clock.now_ms() + 1)
    assert [one.origin["dag"] for one in attempts.attempts if one.job == "compact"] == ["nightly"]


def test_steps_run_in_order_and_a_failure_does_not_stop_the_next(catalog: FilesystemCatalog) -> None:
    missing = Compact(table="d.nothing")
    store = store_of(
        catalog, missing, CompactDatabase(strategy=Strategy.FULL), ExpireTags(table=TABLE), Fsck(table=TABLE)
    )
    result = run(store, catalog)
    assert [one.state for one in result.steps] == [StepState.FAILED, *[StepState.DONE] * 3]
    assert (result.state, result.steps[0].error_class) == (RunState.FAILED, "NotFoundError")
    assert result.steps[1].report["changed"] == 1
    assert result.steps[3].report["findings"] == []
    assert store.view("j").number == 1
    assert run(store, catalog).state is RunState.FAILED, "a failed job is run again"
    assert store.view("j").number == 2


def test_a_window_that_is_over_leaves_the_steps(catalog: FilesystemCatalog) -> None:
    result = run(store_of(catalog, until_ms=1), catalog)
    assert [one.state for one in result.steps] == [StepState.LEFT]
    assert compactions(catalog) == 0


@pytest.mark.parametrize("how", ["marker", "signal"])
def test_a_cancelled_run_stops_before_its_next_unit_and_a_retry_commits(
    catalog: FilesystemCatalog, how: str
) -> None:
    store, executor, stop = store_of(catalog), Slow(), threading.Event()

    def cancel() -> None:
        assert executor.begun.wait(20)
        store.cancel("j", "1") if how == "marker" else stop.set()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    result = run(store, catalog, executor, submission="1", stop=stop)
    canceller.join()
    assert (result.state, compactions(catalog)) == (RunState.CANCELLED, 0)
    assert result.steps[0].report["picks_left"] == 1
    if how == "marker":
        assert run(store, catalog, submission="1").state is RunState.CANCELLED, "the same submission"
    assert run(store, catalog, submission="2").state is RunState.DONE
    assert compactions(catalog) == 1


def test_a_second_runner_of_a_live_job_stops(catalog: FilesystemCatalog) -> None:
    store, executor = store_of(catalog), Slow()
    results: list[Any] = []
    first = threading.Thread(target=lambda: results.append(run(store, catalog, executor)))
    first.start()
    assert executor.begun.wait(20)
    second = replace(store, clock=RealSleep())
    with pytest.raises(BusyError, match="another runner is at work; it is run 1"):
        run(second, catalog)
    executor.go_on.set()
    first.join()
    assert results[0].state is RunState.DONE
    assert compactions(catalog) == 1


class RealSleep(FakeClock):
    """It really waits a little, so that the other thread gives a sign of life."""

    def sleep(self, seconds: float) -> None:
        threading.Event().wait(0.05)
        super().sleep(seconds)


def dead_claim(store: JobStore, **given: Any) -> None:
    assert store.claim("j", 1, RunRecord(runner="dead", **given))


def test_a_runner_that_died_elsewhere_is_lost_after_its_silence(catalog: FilesystemCatalog) -> None:
    store = store_of(catalog)
    dead_claim(store, stale_s=30.0)
    result = run(store, catalog)
    assert result.state is RunState.DONE
    assert sum(store.clock.slept) == 30.0, "it waited for the silence, by its own clock"
    assert store.result("j", 1).state is RunState.LOST
    assert store.view("j").number == 2


def test_a_process_of_this_machine_is_known_to_be_dead(catalog: FilesystemCatalog) -> None:
    store, here = store_of(catalog), this_process()
    assert here is not None
    dead_claim(store, process=replace(here, started=here.started + 1))
    assert run(store, catalog).state is RunState.DONE
    assert store.clock.slept == []


def test_a_runner_that_was_declared_lost_writes_no_result(catalog: FilesystemCatalog) -> None:
    store, executor = store_of(catalog), Slow()

    def declare() -> None:
        assert executor.begun.wait(20)
        store.declare_lost("j", 1)

    other = threading.Thread(target=declare)
    other.start()
    with pytest.raises(BusyError, match="declared lost"):
        run(store, catalog, executor)
    other.join()
    assert executor.cancelled, "its next sign of life stops its units"
    assert store.result("j", 1).state is RunState.LOST
    assert run(store, catalog).state is RunState.DONE
    assert compactions(catalog) == 1


def test_a_watcher_sees_the_progress_the_end_and_the_silence(catalog: FilesystemCatalog) -> None:
    store = store_of(catalog)
    watch = JobWatch(store, "j", 0, start_s=60)
    assert watch.look().status == "running"
    store.clock.sleep(60)
    assert watch.look().status == "not-started"
    dead_claim(store, progress={"rows_done": 5})
    assert watch.look().progress == {"rows_done": 5}
    store.clock.sleep(59)
    store.beat("j", 1, RunRecord(runner="dead", beat=1))
    assert watch.look().status == "running"
    store.clock.sleep(60)
    assert watch.look().status == "lost"
    assert watch.look().status == "ended", "it is written down for all others"
    assert run(store, catalog).state is RunState.DONE
    after = JobWatch(store, "j", 1, start_s=60).look()
    assert (after.status, after.run) == ("ended", 2)


def test_a_job_is_written_once_and_never_replaced(catalog: FilesystemCatalog) -> None:
    store = store_of(catalog)
    store_of(catalog)
    with pytest.raises(CorruptDataError, match="request of another job"):
        store_of(catalog, Fsck(table=TABLE))
    assert store.load("j").steps == (step_of(COMPACT),)
    with pytest.raises(NotFoundError, match="there is no such job"):
        store.load("k")


def test_old_jobs_are_removed_by_the_clock_of_storage(catalog: FilesystemCatalog) -> None:
    store = store_of(catalog)
    other = JobFile(id="new", steps=(step_of(COMPACT),))
    store.create(other)
    ages = {"j": 1_000, "new": 10_000}
    aged = JobStore(_Aged(catalog.file_io, ages), catalog.warehouse, FakeClock())
    assert aged.tidy("new", 9_001) == 0
    assert aged.tidy("new", 8_999) == 1
    assert [one.name for one in catalog.file_io.list(store.root)] == ["new"]


class _Aged:
    """Storage whose files have these modification times by their folder."""

    def __init__(self, inner: Any, ages: dict[str, int]) -> None:
        self.inner, self.ages = inner, ages

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def list(self, path: str) -> Any:
        age = self.ages.get(path.rpartition("/")[2], 0)
        return [replace(one, mtime_ms=age) for one in self.inner.list(path)]
