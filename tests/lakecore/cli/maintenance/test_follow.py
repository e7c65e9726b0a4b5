"""`compact --follow`: tables that others write to are compacted round after round."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lakecore
from lakecore import FilesystemCatalog, Table
from lakecore.executor import Executor, SerialExecutor
from lakecore.jobs import compact
from lakecore.jobs.compact.follow import CompactionFollower
from lakecore.maintain.lease.lease import LeaseTimes, leased
from tests.lakecore.cli.conftest import Cli
from tests.support.fault_fs import FaultyFileIO
from tests.support.lake import key_table, memory_catalog, put, rows_of


class Overtaken(SerialExecutor):
    """All units of the first round run, and another writer commits before their results come back."""

    def __init__(self, other: Callable[[], object]) -> None:
        super().__init__()
        self._others = [other]

    def run(self, function: Callable[..., Any], tasks: Iterable[Any]) -> Iterator[Any]:
        results = list(super().run(function, tasks))
        while self._others:
            self._others.pop()()
        yield from results


def follower(
    catalog: FilesystemCatalog, *names: str, lease_ms: int = 0, executor: Executor | None = None
) -> CompactionFollower:
    def compacted(changed: list[str]) -> list[compact.Report]:
        jobs = [
            compact.Job(table=name, strategy=compact.Strategy.FULL, lease_ms=lease_ms, owner="follower")
            for name in changed
        ]
        return compact.run_many(jobs, catalog, executor, catalog.clock)

    return CompactionFollower(catalog, lambda: names, compacted)


def test_a_table_is_compacted_once_for_each_change() -> None:
    catalog = memory_catalog("follow")
    table = key_table(catalog)
    following = follower(catalog, "d.k")
    assert following.run_round() == ()
    put(table, [{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}])
    assert [len(report.snapshots) for report in following.run_round()] == [1]
    assert following.run_round() == ()
    put(table, [{"k": 2, "v": "c"}])
    assert [len(report.snapshots) for report in following.run_round()] == [1]
    assert following.run_round() == ()
    assert rows_of(table) == [(1, "b"), (2, "c")]


def test_a_commit_between_plan_and_commit_is_compacted_in_the_next_round() -> None:
    catalog = memory_catalog("follow-overtaken")
    table = key_table(catalog)
    put(table, [{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}])
    following = follower(catalog, "d.k", executor=Overtaken(lambda: put(table, [{"k": 2, "v": "c"}])))
    (first,) = following.run_round()
    assert first.snapshots == (4,)
    (second,) = following.run_round()
    assert second.snapshots == (5,)
    assert [len(following.run_round()) for _ in range(2)] == [0, 0]
    assert rows_of(table) == [(1, "b"), (2, "c")]


def test_an_idle_table_costs_one_look_and_one_small_read() -> None:
    catalog = memory_catalog("follow-idle")
    put(key_table(catalog), [{"k": 1, "v": "a"}])
    following = follower(catalog, "d.k")
    following.run_round()
    snapshots = following._tables.snapshots("d.k")
    counted = FaultyFileIO(snapshots.file_io)
    object.__setattr__(snapshots, "file_io", counted)
    assert following.run_round() == ()
    assert len(counted.log) == 2, counted.log


def test_a_failure_is_tried_again_later() -> None:
    catalog = memory_catalog("follow-fails")
    table = key_table(catalog)
    put(table, [{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}])
    file = next(iter(table._scanner.live_entries(table.latest_snapshot()).files()))
    path = f"{table.path}/bucket-0/{file.file_name}"
    data = catalog.file_io.read(path)
    catalog.file_io.delete(path)
    following = follower(catalog, "d.k")
    reports = [following.run_round() for _ in range(4)]
    assert [len(one) for one in reports] == [1, 0, 1, 0]
    assert all(report.error for one in reports for report in one)
    catalog.file_io.write_new(path, data)
    for _ in range(8):
        last = following.run_round()
        if last:
            break
    assert last[0].error is None


def test_a_table_that_another_chore_holds_is_looked_at_in_the_next_round() -> None:
    catalog = memory_catalog("follow-busy")
    put(key_table(catalog), [{"k": 1, "v": "a"}])
    following = follower(catalog, "d.k", lease_ms=60_000)
    with leased(catalog.file_io, catalog.warehouse, "d.k", "other", catalog.clock, LeaseTimes(60_000, 0)):
        (busy,) = following.run_round()
        assert not busy.snapshots
    for _ in range(3):
        if reports := following.run_round():
            break
    assert reports[0].snapshots


def test_the_command_ends_after_so_many_rounds(cli: Cli, warehouse: Path) -> None:
    table = made(warehouse)
    put(table, [{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}])
    answer = cli(
        "--json", "compact", "d.k", "--strategy", "full", "--follow", "--interval", "0.1", "--rounds", "3"
    )
    assert answer.code == 0, answer.err
    assert [json.loads(line)["table"] for line in answer.lines] == ["d.k"]
    assert len(list(table.snapshots())) == 3
    everything = cli("compact-database", "--follow", "--interval", "0.1", "--rounds", "2")
    assert everything.code == 0, everything.err


@pytest.mark.parametrize(
    "wrong",
    [["--dry-run"], ["--commit-user", "u", "--commit-identifier", "1"], ["--until", "23:59"]],
    ids=lambda wrong: wrong[0],
)
def test_what_belongs_to_one_run_is_refused(cli: Cli, warehouse: Path, wrong: list[str]) -> None:
    made(warehouse)
    answer = cli("compact", "d.k", "--follow", *wrong)
    assert answer.code != 0
    assert "--follow" in answer.err
    assert "--follow" in cli("compact", "d.k", "--rounds", "2").err


@pytest.mark.parametrize(
    ("number", "engine"),
    [
        (signal.SIGTERM, "local"),
        (signal.SIGINT, "local"),
        (signal.SIGINT, "spark"),  # which handles it, too
        (signal.SIGKILL, "local"),
    ],
)
def test_signals(warehouse: Path, number: signal.Signals, engine: str) -> None:
    """SIGTERM and Ctrl-C end the command with code 0; after a kill another one goes on, and nothing is lost."""
    table = made(warehouse)
    put(table, [{"k": 1, "v": "a"}], [{"k": 2, "v": "b"}])
    for last in (False, True):
        process = started(warehouse, engine)
        kinds = 2 if last else 1
        deadline = time.monotonic() + 180
        while compactions(table) < kinds and time.monotonic() < deadline:
            time.sleep(0.05)
        assert compactions(table) == kinds
        process.send_signal(number)
        code = process.wait(60)
        assert code == (-signal.SIGKILL if number is signal.SIGKILL else 0)
        put(table, [{"k": 3, "v": "c"}])
    assert rows_of(table) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_command_whose_spark_was_killed_ends_with_an_error(warehouse: Path) -> None:
    """Whoever keeps it alive starts it again; in the same process there is no other session."""
    table = made(warehouse)
    put(table, [{"k": 1, "v": "a"}], [{"k": 2, "v": "b"}])
    process = started(warehouse, "spark")
    deadline = time.monotonic() + 180
    while compactions(table) < 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    (jvm,) = [pid for pid in children(process.pid) if "java" in os.readlink(f"/proc/{pid}/exe")]
    os.kill(jvm, signal.SIGKILL)
    assert process.wait(60) == 1


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def started(warehouse: Path, engine: str) -> subprocess.Popen[bytes]:
    command = ["compact", "d.k", "--strategy", "full", "--follow", "--interval", "0.1", "--engine", engine]
    return subprocess.Popen(
        [sys.executable, "-c", "import sys; from lakecore.cli.main import main; sys.exit(main())", *command],
        env=os.environ | {"LAKECORE_WAREHOUSE": str(warehouse)},
        stdout=subprocess.DEVNULL,
    )


def compactions(table: Table) -> int:
    return sum(snapshot.commit_kind.value == "COMPACT" for snapshot in table.snapshots())


def made(warehouse: Path) -> Table:
    return key_table(lakecore.load_catalog(warehouse, create_warehouse=True))
