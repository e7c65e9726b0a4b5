"""The compaction job on tables in memory: what it does, reports, repeats, drops, stops and cleans up."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.clock import SystemClock
from lakecore.errors import (
    CommitConflictError,
    InvalidInputError,
    LakeError,
    NotFoundError,
    ProofError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.executor import SerialExecutor
from lakecore.jobs import compact
from lakecore.jobs.compact import Job, Strategy
from lakecore.metadata.snapshot import CommitKind
from lakecore.table import Table
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import append_table, key_table, live_files, memory_catalog, paths_of, put, rows_of

FULL = Strategy.FULL


@pytest.fixture
def catalog() -> FilesystemCatalog:
    return memory_catalog()


def job(table: str = "d.k", **fields: Any) -> Job:
    return Job(**{"table": table, "strategy": FULL, "commit_user": "test"} | fields)


def run(catalog: FilesystemCatalog, executor: Any = None, clock: Any = None, **fields: Any) -> compact.Report:
    return compact.run(job(**fields), catalog, executor, clock or catalog.clock)


def generations(count: int, keys: int = 10) -> list[list[dict[str, Any]]]:
    return [[{"k": k, "v": f"{n}.{k}"} for k in range(n, keys + n)] for n in range(count)]


def referenced(table: Table) -> set[str]:
    """Every data file that some snapshot can name."""
    names: set[str] = set()
    for snapshot_id in table._stores.snapshots.list_ids():
        for file in table._scanner.live_entries(table._stores.snapshots.load(snapshot_id)).files():
            names.add(file.file_name)
    return names


def no_debris(table: Table) -> bool:
    return {path.rpartition("/")[2] for path in paths_of(table)} == referenced(table)


def test_full_compaction_of_a_keyed_table(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    put(table, *generations(4))
    put(table, [{"k": 2, "v": None, "_kind": "-D"}])
    before = rows_of(table)
    report = run(catalog)
    assert rows_of(table) == before
    assert (report.rows_in, report.rows_out, report.files_in, report.files_out) == (41, 12, 5, 1)
    assert (report.before.sorted_runs, report.after.sorted_runs) == (5, 1)
    assert report.after.levels == {5: 1}
    assert "41 input rows = 12 output rows + 28 replaced rows + 1 dropped deletes" in report.proof
    [file] = live_files(table)
    assert (file.level, file.delete_row_count) == (5, 0)
    latest = table._stores.snapshots.load(report.snapshot)
    assert latest.commit_kind is CommitKind.COMPACT
    assert (latest.commit_user, latest.commit_identifier) == ("test", 1)
    assert latest.properties["lakecore.proof.rows-in"] == "41"
    assert no_debris(table)


def test_a_healthy_table_is_left_alone(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    put(table, *generations(5))
    assert not run(catalog, strategy=Strategy.UNIVERSAL).nothing_to_do
    snapshots = table._stores.snapshots.list_ids()
    for strategy in Strategy:
        report = run(catalog, strategy=strategy, commit_user="another")
        assert report.nothing_to_do
        assert report.snapshot is None
        assert report.before == report.after
    assert table._stores.snapshots.list_ids() == snapshots


def test_an_empty_table_is_left_alone(catalog: FilesystemCatalog) -> None:
    key_table(catalog)
    assert run(catalog).nothing_to_do


def test_deletes_stay_while_older_rows_may_lie_below(catalog: FilesystemCatalog) -> None:
    """Universal compaction to a level above the last run keeps deletes; the last level does not."""
    table = key_table(catalog, num_sorted_run__compaction_trigger="2")
    put(table, [{"k": k, "v": "x" * 2000 + str(k)} for k in range(2000)])
    run(catalog)
    assert [file.level for file in live_files(table)] == [2]
    put(table, [{"k": 1, "v": None, "_kind": "-D"}], [{"k": 2, "v": None, "_kind": "-D"}])
    before = rows_of(table)
    run(catalog, strategy=Strategy.UNIVERSAL, commit_user="second")
    assert sorted((file.level, file.delete_row_count) for file in live_files(table)) == [(1, 2), (2, 0)]
    assert rows_of(table) == before
    run(catalog, commit_user="third")
    assert [(file.level, file.delete_row_count) for file in live_files(table)] == [(2, 0)]
    assert rows_of(table) == before


def test_a_bucket_whose_rows_are_all_deleted_becomes_empty(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    put(table, generations(1)[0])
    put(table, [{"k": k, "v": None, "_kind": "-D"} for k in range(10)])
    report = run(catalog)
    assert (report.rows_in, report.rows_out, report.files_out) == (20, 0, 0)
    assert live_files(table) == []
    assert rows_of(table) == []
    assert run(catalog, commit_user="another").nothing_to_do


def test_a_lone_file_moves_without_being_read(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    put(table, generations(1)[0])
    [before] = live_files(table)
    report = run(catalog)
    assert live_files(table) == [replace(before, level=5)]
    assert (report.rows_in, report.moved, report.picks_done) == (0, 1, 1)
    assert report.proof == "1 file moved to another level, metadata only"


def test_sequence_fields_decide(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, columns=("k INT", "s INT", "v STRING"), sequence__field="s")
    put(
        table,
        [{"k": 1, "s": 5, "v": "late"}],
        [{"k": 1, "s": 3, "v": "early"}],
        [{"k": 1, "s": None, "v": "null"}],
    )
    assert rows_of(table) == [(1, 5, "late")]
    run(catalog)
    assert rows_of(table) == [(1, 5, "late")]


def test_partitions_are_chosen_by_where(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, columns=("p STRING", "k INT"), keys=("p", "k"), partitions=("p",))
    for _ in range(2):
        put(table, [{"p": p, "k": k} for p in "abc" for k in range(3)])
    report = run(catalog, where="p=a;p=c")
    assert (report.before.files, report.after.files, report.picks_done) == (4, 2, 2)
    assert sorted(file.level for file in live_files(table)) == [0, 0, 5, 5]
    with pytest.raises(InvalidInputError):
        run(catalog, where="nope=1")


@pytest.mark.parametrize(
    ("buckets", "done"), [("0-3", {0, 1, 2, 3}), ("2", {2}), (" 0 , 2 - 3", {0, 2, 3}), (None, {0, 1, 2, 3})]
)
def test_buckets_are_chosen(catalog: FilesystemCatalog, buckets: str | None, done: set[int]) -> None:
    table = key_table(catalog, bucket="4")
    put(table, *generations(2, 40))
    assert run(catalog, buckets=buckets).picks_done == len(done)
    assert {file.level for file in live_files(table)} == ({5} if len(done) == 4 else {0, 5})
    latest = table._stores.snapshots.latest()
    assert latest is not None
    entries = table._scanner.live_entries(latest)
    assert set(entries.bucket[entries.level == 5].tolist()) == done


@pytest.mark.parametrize("buckets", ["4", "1-", "", "0,,1", "3-2", "-1", "x"])
def test_buckets_that_do_not_exist_are_refused(catalog: FilesystemCatalog, buckets: str) -> None:
    put(key_table(catalog, bucket="4"), *generations(2))
    with pytest.raises(InvalidInputError, match="buckets="):
        run(catalog, buckets=buckets)


def test_buckets_have_no_names_where_their_number_is_not_fixed(catalog: FilesystemCatalog) -> None:
    append_table(catalog)
    with pytest.raises(InvalidInputError, match="no fixed number"):
        run(catalog, table="d.a", buckets="0")


def test_only_idle_partitions_are_compacted(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, columns=("p STRING", "k INT"), keys=("p", "k"), partitions=("p",))
    for _ in range(2):
        put(table, [{"p": p, "k": k} for p in "abc" for k in range(3)])
    written_ms = live_files(table)[0].creation_time
    assert written_ms is not None
    later = FakeClock(written_ms + 3_600_000)
    assert run(catalog, clock=later, partition_idle_ms=3_700_000).nothing_to_do
    with pytest.raises(InvalidInputError, match="order strategy"):
        run(catalog, partition_idle_ms=1, order_strategy=compact.OrderStrategy.ORDER)
    report = run(catalog, clock=later, partition_idle_ms=3_500_000, where="p=a;p=c")
    assert (report.picks_done, sorted(file.level for file in live_files(table))) == (2, [0, 0, 5, 5])


def test_append_files_are_joined(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog)
    put(table, *([{"v": n, "p": "a"}] for n in range(7)))
    before = rows_of(table)
    report = run(catalog, table="d.a", strategy=Strategy.UNIVERSAL)
    assert (report.files_in, report.files_out, report.rows_in, report.rows_out) == (7, 1, 7, 7)
    assert rows_of(table) == before
    assert run(catalog, table="d.a", commit_user="another").nothing_to_do
    assert no_debris(table)


def test_ordered_append_files_keep_their_order(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog, columns=("v INT", "b INT"), bucket="1", bucket_key="b")
    put(table, *([{"v": n, "b": 1}, {"v": n + 1, "b": 1}] for n in range(0, 14, 2)))
    run(catalog, table="d.a")
    assert table.scan(columns=["v"]).to_arrow().column(0).to_pylist() == list(range(14))
    [file] = live_files(table)
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 13)


def test_full_proof(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    put(table, *generations(3))
    report = run(catalog, proof=compact.ProofMode.FULL)
    assert "every column" in report.proof


def test_a_repeated_run_goes_on_where_the_first_stopped(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    put(table, *generations(3))
    first = run(catalog)
    again = run(catalog)
    assert again.nothing_to_do
    assert again.snapshots == first.snapshots
    put(table, *generations(3))
    third = run(catalog)
    assert len(third.snapshots) == 2
    identifiers = [table._stores.snapshots.load(i).commit_identifier for i in third.snapshots]
    assert identifiers == [1, 2]


def test_dry_run_writes_nothing(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    put(table, *generations(3))
    stored = paths_of(table, "")
    report = run(catalog, dry_run=True)
    assert report.planned == ("bucket-0: full to level 5: merge 3 files, 30 rows",)
    assert (report.picks_left, report.picks_done, report.nothing_to_do) == (1, 0, False)
    assert paths_of(table, "") == stored


def test_until_stops_between_picks(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, columns=("p INT", "k INT"), keys=("p", "k"), partitions=("p",))
    for _ in range(2):
        put(table, [{"p": p, "k": k} for p in range(4) for k in range(3)])
    before = rows_of(table)
    clock = FakeClock()

    class Slow(SerialExecutor):
        def run(self, function: Callable[..., Any], tasks: Iterable[Any]) -> Iterator[Any]:
            for result in super().run(function, tasks):
                clock.sleep(60)
                yield result

    report = run(catalog, executor=Slow(), clock=clock, until_ms=clock.now_ms() + 120_000)
    assert report.picks_done == 2
    assert report.picks_left == 2
    assert rows_of(table) == before
    assert no_debris(table)
    assert run(catalog, clock=clock, until_ms=clock.now_ms()).picks_left == 2


class Interfering(SerialExecutor):
    """Lets something happen after unit number `at`."""

    def __init__(self, at: int, action: Callable[[], object]) -> None:
        super().__init__()
        self._at = at
        self._action = action

    def run(self, function: Callable[..., Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for number, result in enumerate(super().run(function, tasks)):
            if number == self._at:
                self._action()
            yield result


def test_a_pick_that_lost_its_files_is_dropped_and_the_rest_committed(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, columns=("p INT", "k INT"), keys=("p", "k"), partitions=("p",))
    for _ in range(2):
        put(table, [{"p": p, "k": k} for p in range(3) for k in range(3)])
    before = rows_of(table)
    other = Interfering(1, lambda: run(catalog, where="p=1", commit_user="other"))
    report = run(catalog, executor=other)
    assert report.dropped == ("p=1/bucket-0",)
    assert report.picks_done == 2
    assert [file.level for file in live_files(table)] == [5, 5, 5]
    assert rows_of(table) == before
    assert no_debris(table)


def test_rows_written_meanwhile_survive(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    put(table, *generations(3))
    run(catalog, executor=Interfering(0, lambda: put(table, [{"k": 0, "v": "new"}])))
    assert (0, "new") in rows_of(table)
    assert sorted(file.level for file in live_files(table)) == [0, 5]


class Failing(SerialExecutor):
    """Unit number `at` fails."""

    def __init__(self, at: int, error: Exception, inner: SerialExecutor | None = None) -> None:
        super().__init__()
        self._at = at
        self._error = error
        self._inner = inner or SerialExecutor()

    def run(self, function: Callable[..., Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for number, result in enumerate(self._inner.run(function, tasks)):
            yield self._error if number == self._at else result


def partitioned(catalog: FilesystemCatalog) -> Table:
    table = key_table(catalog, columns=("p INT", "k INT"), keys=("p", "k"), partitions=("p",))
    for _ in range(2):
        put(table, [{"p": p, "k": k} for p in range(3) for k in range(3)])
    return table


def test_a_failed_unit_fails_its_pick_only(catalog: FilesystemCatalog) -> None:
    table = partitioned(catalog)
    with pytest.raises(UnavailableError, match="lost"):
        run(catalog, executor=Failing(0, UnavailableError("lost")))
    assert sorted(file.level for file in live_files(table)) == [0, 0, 5, 5]
    assert no_debris(table)


def test_a_failed_proof_fails_its_pick_only(catalog: FilesystemCatalog) -> None:
    table = partitioned(catalog)
    with pytest.raises(ProofError, match="wrong"):
        run(catalog, executor=Failing(2, ProofError("p=2", "wrong")))
    assert sorted(file.level for file in live_files(table)) == [0, 0, 5, 5]
    assert no_debris(table)


def test_a_failed_proof_is_raised_before_failures_that_a_retry_cures(catalog: FilesystemCatalog) -> None:
    table = partitioned(catalog)
    with pytest.raises(ProofError, match="1 more picks failed"):
        run(catalog, executor=Failing(0, UnavailableError("lost"), Failing(2, ProofError("p=2", "wrong"))))
    assert sorted(file.level for file in live_files(table)) == [0, 0, 0, 0, 5]


def kill_after(catalog: FilesystemCatalog, number: int) -> None:
    """Run until storage operation `number` and stop dead: what was written stays."""
    storage = FaultyFileIO(catalog.file_io, fail_at=number, mode=FaultMode.DEAD)
    with suppress(LakeError):
        run(replace(catalog, file_io=storage))


def test_files_of_killed_attempts_are_removed_by_the_next(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    put(table, *generations(3))
    for number in range(20, 80):
        kill_after(catalog, number)
        if not no_debris(table):
            break
    assert not no_debris(table)
    put(catalog.create_table("d.other", {"columns": ["k INT"], "options": {}}), [{"k": 1}])
    run(catalog)
    assert no_debris(table)


def test_files_of_earlier_attempts_that_are_committed_stay(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    put(table, *generations(3))
    run(catalog)
    put(table, *generations(3))
    run(catalog)
    before = rows_of(table)
    put(table, *generations(2))
    run(catalog, commit_user="another")
    assert no_debris(table)
    for snapshot_id in table._stores.snapshots.list_ids():
        rows_of(table, snapshot=snapshot_id)
    assert rows_of(table) != []
    assert len(before) == 12


def test_files_older_than_the_known_snapshots_stay(catalog: FilesystemCatalog) -> None:
    """A name that is used again long after: nobody knows any more what its first run committed."""
    catalog = replace(catalog, clock=FakeClock(SystemClock().now_ms()))
    table = key_table(catalog)
    put(table, *generations(3))
    kept = run(catalog).snapshot
    assert kept is not None
    for _ in range(3):
        put(table, generations(1)[0])
    for snapshot_id in range(1, kept + 1):
        table._stores.file_io.delete(table._stores.paths.snapshot(snapshot_id))
    stored = paths_of(table)
    run(catalog)
    assert paths_of(table) > stored
    assert rows_of(table)


def test_of_two_runs_of_one_name_the_first_to_commit_goes_on(catalog: FilesystemCatalog) -> None:
    table = partitioned(catalog)
    before = rows_of(table)
    twin = Interfering(1, lambda: run(catalog, where="p=1"))
    with pytest.raises(CommitConflictError, match="another run with the same commit user and identifier"):
        run(catalog, executor=twin, where="p=0;p=2")
    assert [file.level for file in live_files(table)].count(5) == 1
    assert rows_of(table) == before
    assert no_debris(table)
    assert run(catalog).picks_done == 2
    assert no_debris(table)


def test_run_many_reports_errors(catalog: FilesystemCatalog) -> None:
    partitioned(catalog)
    reports = compact.run_many([job("d.none"), job("d.k")], catalog)
    assert "d.none" in (reports[0].error or "")
    assert reports[1].error is None
    assert reports[1].picks_done == 3


def test_refusals(catalog: FilesystemCatalog) -> None:
    with pytest.raises(NotFoundError):
        run(catalog)
    table = key_table(
        catalog, data_file__external_paths="s3://b/x", data_file__external_paths__strategy="round-robin"
    )
    with pytest.raises(UnsupportedError, match="external-paths"):
        run(catalog)
    assert table._stores.snapshots.latest() is None


def test_options_of_one_run(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    put(table, *generations(3))
    report = run(
        catalog,
        strategy=Strategy.UNIVERSAL,
        options={"num-sorted-run.compaction-trigger": "2", "file.format": "orc"},
    )
    assert report.picks_done == 1
    [file] = live_files(table)
    assert file.file_name.endswith(".orc")
    with pytest.raises(InvalidInputError):
        run(catalog, options={"merge-engine": "aggregation"})


def test_tasks_and_results_pickle(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    put(table, *generations(3))

    class Pickling(SerialExecutor):
        def run(self, function: Callable[..., Any], tasks: Iterable[Any]) -> Iterator[Any]:
            copies = (pickle.loads(pickle.dumps((function, task)))[1] for task in tasks)
            for result in super().run(function, copies):
                yield pickle.loads(pickle.dumps(result))

    assert run(catalog, executor=Pickling()).picks_done == 1
    assert len(live_files(table)) == 1


def test_job_json() -> None:
    made = job(where="p=1", options={"a": "b"}, until_ms=5, proof=compact.ProofMode.FULL)
    assert Job.from_json(made.to_json()) == made
    with pytest.raises(InvalidInputError):
        Job.from_json({"table": "d.k", "strategy": "sideways"})
    with pytest.raises(InvalidInputError):
        Job.from_json({"nope": 1})


def test_report_json(catalog: FilesystemCatalog) -> None:
    put(key_table(catalog), *generations(3))
    raw = run(catalog).to_json()
    assert raw["after"]["levels"] == {"5": 1}
    assert raw["strategy"] == "full"
    assert raw["engine"] == "local"
    assert raw["error"] is None
