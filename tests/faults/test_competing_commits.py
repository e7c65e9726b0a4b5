"""Other commits land between the plan and the commit of a compaction: what still fits is committed, the rest named."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.compact.engine.driver import RunSettings
from lakecore.errors import CommitConflictError
from lakecore.executor import SerialExecutor
from lakecore.jobs.compact import Job, Report, Strategy, run
from lakecore.metadata.snapshot import CommitKind
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from tests.support.lake import append_table, key_table, live_files, memory_catalog, put, rows_of

Row = Mapping[str, Any]
Other = Callable[["Lake"], None]


class BeforeResults(SerialExecutor):
    """All units of the first round run, then something else happens, and only then do their results come back."""

    def __init__(self, other: Callable[[], object]) -> None:
        super().__init__()
        self._others = [other]

    def run(self, function: Callable[..., Any], tasks: Iterable[Any]) -> Iterator[Any]:
        results = list(super().run(function, tasks))
        while self._others:
            self._others.pop()()
        yield from results


class Lake:
    """A table of partitions a, b, c with several files each, and a dict (or a bag) that says what it must hold."""

    def __init__(self, *, keyed: bool) -> None:
        self.keyed = keyed
        self.catalog: FilesystemCatalog = memory_catalog(f"competing-{keyed}")
        columns = ("p STRING", "k INT", "v STRING")
        if keyed:
            self.table: Table = key_table(self.catalog, columns, keys=("p", "k"), partitions=("p",))
        else:
            self.table = append_table(self.catalog, columns, partitions=("p",), bucket="-1")
        self.expected: Counter[tuple[Any, ...]] = Counter()
        for number in range(6):
            self.put(
                [{"p": p, "k": k, "v": f"{number}{k}"} for p in "abc" for k in range(number, number + 3)]
            )

    def put(self, rows: list[Row]) -> None:
        put(self.table, rows)
        for row in rows:
            self.model(row)

    def model(self, row: Row) -> None:
        values = (row["p"], row["k"], row["v"])
        if self.keyed:
            for old in [known for known in self.expected if known[:2] == values[:2]]:
                del self.expected[old]
        if row.get("_kind") != "-D":
            self.expected[values] += 1

    def forget(self, partition: str) -> None:
        for known in [known for known in self.expected if known[0] == partition]:
            del self.expected[known]

    def compact(self, user: str = "job", executor: SerialExecutor | None = None, **fields: Any) -> Report:
        job = Job(**{"table": self.table.name, "strategy": Strategy.FULL, "commit_user": user} | fields)
        return run(job, self.catalog, executor, self.catalog.clock)

    def check(self) -> None:
        assert Counter(rows_of(self.table)) == self.expected
        report = fsck(
            self.table._stores.file_io,
            self.table._stores.paths,
            now_ms=self.catalog.clock.now_ms(),
            read_data=True,
        )
        assert report.findings == ()

    def commits(self) -> list[str]:
        """Kind and user of the snapshots after the first six."""
        found = [self.table._stores.snapshots.load(i) for i in self.table._stores.snapshots.list_ids()[6:]]
        return [f"{s.commit_kind.value} {s.commit_user.partition('_')[0]}" for s in found]


@pytest.fixture(params=[True, False], ids=["keyed", "append"])
def lake(request: pytest.FixtureRequest) -> Lake:
    return Lake(keyed=request.param)


def in_partition(name: str, picks: Iterable[str]) -> list[bool]:
    return [f"p={name}/" in pick for pick in picks]


def test_new_rows_and_the_compaction_both_land(lake: Lake) -> None:
    rows = [{"p": "a", "k": 1, "v": "meanwhile"}, {"p": "d", "k": 1, "v": "new partition"}]
    report = lake.compact(executor=BeforeResults(lambda: lake.put(rows)))
    assert report.dropped == ()
    assert report.picks_done == (
        3 if lake.keyed else 4
    )  # append tables are looked at again: a, with its new file
    assert lake.commits()[:2] == ["APPEND lakecore", "COMPACT job"]
    lake.check()


def test_deletes_written_meanwhile_stay_deletes() -> None:
    """The compaction may not bring back what a newer row deletes."""
    lake = Lake(keyed=True)
    gone = [{"p": "a", "k": k, "v": None, "_kind": "-D"} for k in range(4)]
    report = lake.compact(executor=BeforeResults(lambda: lake.put(gone)))
    assert report.dropped == ()
    lake.check()
    lake.compact("later")
    lake.check()


def test_a_competing_compaction_wins_its_bucket_only(lake: Lake) -> None:
    other = BeforeResults(lambda: lake.compact("rival", where="p=b"))
    report = lake.compact(executor=other)
    assert in_partition("b", report.dropped) == [True]
    assert (report.picks_done, report.error) == (2, None)
    assert lake.commits() == ["COMPACT rival", "COMPACT job"]
    assert len(live_files(lake.table)) == 3
    lake.check()
    assert lake.compact("later").nothing_to_do


def test_a_competing_compaction_of_everything_leaves_nothing_to_commit(lake: Lake) -> None:
    report = lake.compact(executor=BeforeResults(lambda: lake.compact("rival")))
    assert len(report.dropped) == 3
    assert (report.picks_done, report.snapshots) == (0, ())
    assert lake.commits() == ["COMPACT rival"]
    lake.check()


def test_the_same_job_started_twice_commits_once(lake: Lake) -> None:
    """A scheduler that starts a task again while its first try still runs: same user, same identifier."""
    with pytest.raises(
        CommitConflictError, match="another run with the same commit user and identifier is active"
    ):
        lake.compact(executor=BeforeResults(lambda: lake.compact()))
    assert lake.commits() == ["COMPACT job"]
    lake.check()


@pytest.mark.parametrize("at", range(3))
def test_the_same_job_started_twice_with_several_commits(
    lake: Lake, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second try removes what the first has not committed: the first must not commit it afterwards."""
    settings = functools.partial(RunSettings, commit_picks=1)
    monkeypatch.setattr("lakecore.compact.engine.run.RunSettings", settings)

    class Overtaken(SerialExecutor):
        """The second try runs, whole, once this one has done so many units."""

        def run(self, function: Callable[..., Any], tasks: Iterable[Any]) -> Iterator[Any]:
            for number, result in enumerate(super().run(function, tasks)):
                if number == at:
                    lake.compact()
                yield result

    with pytest.raises(
        CommitConflictError, match="another run with the same commit user and identifier is active"
    ):
        lake.compact(executor=Overtaken())
    assert lake.commits() == ["COMPACT job"] * 3
    lake.check()


def test_an_overwritten_partition_stays_overwritten(lake: Lake) -> None:
    def overwrite() -> None:
        lake.table.overwrite(pa.table({"p": ["a"], "k": pa.array([7], pa.int32()), "v": ["only"]}), "p=a")
        lake.forget("a")
        lake.model({"p": "a", "k": 7, "v": "only"})

    report = lake.compact(executor=BeforeResults(overwrite))
    assert in_partition("a", report.dropped) == [True]
    assert report.picks_done == 2
    assert lake.commits() == ["OVERWRITE lakecore", "COMPACT job"]
    lake.check()


def test_a_dropped_partition_stays_dropped(lake: Lake) -> None:
    def drop() -> None:
        empty = pa.table(
            {"p": pa.array([], pa.string()), "k": pa.array([], pa.int32()), "v": pa.array([], pa.string())}
        )
        lake.table.overwrite(empty, "p=a;p=c")
        lake.forget("a")
        lake.forget("c")

    report = lake.compact(executor=BeforeResults(drop))
    assert len(report.dropped) == 2
    assert report.picks_done == 1
    lake.check()
    kinds = [
        lake.table._stores.snapshots.load(i).commit_kind for i in lake.table._stores.snapshots.list_ids()[-2:]
    ]
    assert kinds == [CommitKind.OVERWRITE, CommitKind.COMPACT]


def test_an_overwrite_loses_nothing_of_a_compaction(lake: Lake) -> None:
    """The other way round: a compaction lands while an overwrite of the same partition is being written."""

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"p": ["a"], "k": pa.array([1], pa.int32()), "v": ["one"]})
        lake.compact("rival")
        yield pa.record_batch({"p": ["a"], "k": pa.array([2], pa.int32()), "v": ["two"]})

    lake.table.overwrite(rows(), "p=a")
    lake.forget("a")
    for k, v in ((1, "one"), (2, "two")):
        lake.model({"p": "a", "k": k, "v": v})
    assert lake.commits() == ["COMPACT rival", "OVERWRITE lakecore"]
    lake.check()
