"""Units in this process and in workers: order, failures, killed workers, and an end without left processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.clock import SystemClock
from lakecore.errors import CorruptDataError, UnavailableError
from lakecore.executor import Executor, UnitWork, unit_key, watch_units
from lakecore.jobs.compact import Job, Strategy, run
from lakecore.processes import cores, unit_messages
from lakecore.processes.executor import ProcessExecutor
from lakecore.processes.unit_messages import UnitMessages, decode_message, encode_message
from lakecore.verify.fsck.check import fsck
from tests.lakecore.processes import units
from tests.support.killing_fs import KillingFileIO, KillPoint
from tests.support.lake import key_table, put, rows_of


def has_ended(pid: int) -> bool:
    """A process that nobody waits for is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_for_end(pid: int) -> None:
    end = time.monotonic() + 20
    while not has_ended(pid):
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.02)


def test_units_run_at_once_and_workers_are_kept(tmp_path: Path) -> None:
    with ProcessExecutor(2) as executor:
        runs = []
        for name in "ab":
            (tmp_path / name).mkdir()
            runs.append(set(executor.run(units.pid_after, [(str(tmp_path / name), 2)] * 2)))
        assert runs[0] == runs[1]
        assert os.getpid() in runs[0]
        (worker,) = runs[0] - {os.getpid()}
        assert worker
    wait_for_end(worker)


def test_single_units_of_several_threads_run_at_once(tmp_path: Path) -> None:
    found: set[int] = set()
    with ProcessExecutor(2) as executor:

        def one() -> None:
            found.update(executor.run(units.pid_after, [(str(tmp_path), 2)]))

        threads = [threading.Thread(target=one) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found - {0}) == 2


def test_what_a_killed_worker_told_is_heard_and_its_unit_fails(tmp_path: Path) -> None:
    told: list[UnitWork] = []
    names = ["a", "b"]
    tasks = [units.NamedUnit(name, str(tmp_path / "marker"), os.getpid()) for name in names]
    with ProcessExecutor(2) as executor, watch_units(told.append):
        results = list(executor.run(units.counted_then_killed, tasks))
    assert sum(isinstance(one, UnavailableError) for one in results) == 1
    assert sum(one == 10 for one in results) == 1
    most = {name: max(one.read for one in told if one.unit == (unit_key(name),)) for name in names}
    assert most == {"a": 10, "b": 10}, "the last of the killed one, too, was sent before it was killed"


def test_messages_are_some_time_apart_and_end_with_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 0.5, 1.0, 1.0, 1.5, 2.1, 2.1])
    monkeypatch.setattr(unit_messages, "time", SimpleNamespace(monotonic=lambda: next(now)))
    sent: list[list[UnitWork]] = []
    sender = UnitMessages(lambda works: sent.append(list(works)))
    for unit, rows in (("a", 1), ("b", 2), ("a", 3)):
        sender(UnitWork((unit,), rows, 0))
    assert sent == [[UnitWork(("a",), 1, 0), UnitWork(("b",), 2, 0)]]
    sender(UnitWork(("a",), 4, 0))
    assert sent[1:] == [[UnitWork(("a",), 4, 0)]]
    sender.close()
    sender(UnitWork(("a",), 5, 0))
    assert len(sent) == 2

    def broken(works: object) -> None:
        raise BrokenPipeError

    monkeypatch.undo()
    monkeypatch.setattr(unit_messages, "EVERY_S", 0)
    for _ in range(2):
        UnitMessages(broken)(UnitWork(("a",), 1, 0))


def test_messages_survive_their_way_and_others_are_refused() -> None:
    works = [UnitWork((3, "ab"), 10, 5), UnitWork(("ab",), 0, 1)]
    assert decode_message(encode_message(works)) == works
    for data in (
        b"",
        b"[[1, 2]]",
        b"[[[], 1, 2]]",
        b"[5]",
        b'["abc", 7]',
        b'{"a": 1}',
        b"\xff",
        b'[["a", "b", 1]]',
    ):
        with pytest.raises(ValueError, match="no message"):
            decode_message(data)


def test_results_and_failures_are_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    executor: Executor
    with ProcessExecutor(3) as executor:
        assert (executor.name, executor.parallelism) == ("local", 3)
        results = list(executor.run(units.checked, range(12)))
        assert list(executor.run(units.checked, [])) == []
    assert isinstance(results[1], CorruptDataError)
    assert results[1].path == "/lake/file-1"
    assert results[:1] + results[2:] == [2 * number for number in range(12) if number != 1]
    assert "a unit prints 11" in "".join(capfd.readouterr())


def test_small_work_starts_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessExecutor, "patience_s", 60.0)
    began = time.monotonic()
    with ProcessExecutor(4) as executor:
        assert list(executor.run(abs, range(-50, 0))) == list(range(50, 0, -1))
        assert not executor._workers
    assert time.monotonic() - began < 60, "threads that wait for a worker end with the last unit"


def test_without_room_for_a_worker_this_process_does_the_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(subprocess, "Popen", no_room)
    monkeypatch.setattr(ProcessExecutor, "patience_s", 0.0)
    with ProcessExecutor(4) as executor:
        assert len(list(executor.run(units.checked, range(4)))) == 4
    assert "Cannot allocate memory" in caplog.text


def test_what_cannot_be_pickled_fails_its_unit_only(tmp_path: Path) -> None:
    with ProcessExecutor(2) as executor:
        results = list(executor.run(units.unpicklable, [(str(tmp_path), 2)] * 2))
        failed = [result for result in results if isinstance(result, Exception)]
        assert len(failed) == 1
        assert "pickle" in str(failed[0])
        assert list(executor.run(abs, [-1, -2])) == [1, 2]


def test_a_killed_worker_fails_its_unit_and_another_one_takes_its_place(tmp_path: Path) -> None:
    marker, folder = tmp_path / "marker", tmp_path / "folder"
    folder.mkdir()
    with ProcessExecutor(2) as executor:
        results = list(executor.run(units.killed_elsewhere, [(os.getpid(), str(marker))] * 3))
        (lost,) = (result for result in results if isinstance(result, UnavailableError))
        assert results.count(os.getpid()) == 2
        assert "was killed by signal 9" in str(lost)
        assert "--processes 1" in str(lost)
        assert len(set(executor.run(units.pid_after, [(str(folder), 2)] * 2)) - {0}) == 2


def test_leaving_early_and_cancelling_kill_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_PROCESS", str(os.getpid()))
    with ProcessExecutor(2) as executor:
        results = executor.run(units.endless, [str(tmp_path / "left")] * 9)
        next(results)
        others = [path for path in tmp_path.glob("left-*") if path.name != f"left-{os.getpid()}"]
        results.close()  # type: ignore[attr-defined]
        for path in others:
            wait_for_end(int(path.name.partition("-")[2]))
        threading.Timer(1.5, executor.cancel).start()
        assert len(list(executor.run(units.endless, [str(tmp_path / "cancelled")] * 9))) < 9
        assert list(executor.run(units.checked, [1])) == []
    assert others


def test_workers_end_with_a_process_that_is_killed(tmp_path: Path) -> None:
    code = (
        "from lakecore.processes.executor import ProcessExecutor\n"
        "from tests.lakecore.processes import units\n"
        f"list(ProcessExecutor(2).run(units.endless, [{str(tmp_path / 'unit')!r}] * 2))"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        end = time.monotonic() + 20
        while len(pids := [int(path.name.partition("-")[2]) for path in tmp_path.iterdir()]) < 2:
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert process.pid in pids
    for pid in pids:
        wait_for_end(pid)


@pytest.mark.parametrize("point", ["write", "open_input"])
def test_a_compaction_whose_worker_is_killed_loses_nothing(tmp_path: Path, point: str) -> None:
    lake = load_catalog(str(tmp_path / "lake"), create_warehouse=True, **{"local.fsync": "false"})
    table = key_table(lake, ("p INT", "k INT", "v STRING"), keys=("p", "k"), partitions=("p",))
    put(table, *([{"p": p, "k": k, "v": f"{n}"} for p in range(10) for k in range(9)] for n in range(2)))
    before = rows_of(table)
    killing = KillingFileIO(KillPoint(name=point, part="bucket-", spared=os.getpid()))
    catalog = replace(lake, file_io=killing)
    with ProcessExecutor(2) as executor:
        (tmp_path / "pids").mkdir()
        list(executor.run(units.pid_after, [(str(tmp_path / "pids"), 2)] * 2))  # the worker is there
        with pytest.raises(UnavailableError, match="was killed by signal 9"):
            run(Job(table="d.k", strategy=Strategy.FULL), catalog, executor)
    assert rows_of(table) == before
    report = fsck(table._stores.file_io, table._stores.paths, now_ms=SystemClock().now_ms(), read_data=True)
    assert report.damage == ()


@pytest.mark.parametrize(
    ("text", "quota"), [("max 100000", None), ("150000 100000", 1), ("400000 100000", 4), ("", None)]
)
def test_the_quota_of_a_container_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, quota: int | None
) -> None:
    (tmp_path / "cpu.max").write_text(text)
    monkeypatch.setattr(cores, "_CPU_MAX", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16))
    assert cores.core_count() == (quota or 16)
    monkeypatch.setattr(cores, "_CPU_MAX", tmp_path / "nothing")
    assert cores.core_count() == 16
