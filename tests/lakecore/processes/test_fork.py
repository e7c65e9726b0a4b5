"""Workers that are copies of their process: units, failures, signals, and an end without left processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lakecore.processes import fork
from lakecore.processes.executor import ProcessExecutor
from tests.lakecore.processes.test_executor import wait_for_end

_BEGIN = """
import json, logging, os, signal, sys, time
from lakecore.processes.executor import ProcessExecutor
from tests.lakecore.processes import units
"""


def _run(code: str) -> tuple[Any, subprocess.CompletedProcess[str]]:
    """Run the code in a process of its own, which has one thread; its last line of output is JSON."""
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN + code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    return json.loads(done.stdout.splitlines()[-1]), done


def test_forked_workers_take_units_at_once(tmp_path: Path) -> None:
    """With the patience of a minute, workers that are processes of their own would not start."""
    (pids, main, workers), _ = _run(f"""
ProcessExecutor.patience_s = 60.0
with ProcessExecutor(3, forks=True) as executor:
    workers = [worker._process.pid for worker in executor._workers]
    pids = list(executor.run(units.pid_after, [({str(tmp_path)!r}, 3)] * 3))
    print(json.dumps([sorted(pids), os.getpid(), workers]))
""")
    assert pids == sorted([main, *workers])
    for pid in workers:
        wait_for_end(pid)


def test_what_units_print_and_raise(tmp_path: Path) -> None:
    """What they print goes to the standard error output; what was buffered before the fork is written once."""
    (error, results), output = _run(f"""
print("before", end=" ")
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
with ProcessExecutor(2, forks=True) as executor:
    assert 0 not in executor.run(units.pid_after, [({str(tmp_path)!r}, 2)] * 2), "a worker takes units now"
    results = list(executor.run(units.checked, range(12)))
print()
print(json.dumps([repr(results.pop(1)), results]))
""")
    assert "CorruptDataError" in error
    assert results == [2 * number for number in range(12) if number != 1]
    assert output.stdout.count("before") == 1
    assert "before" not in output.stderr
    assert "a unit prints" in output.stderr


def test_a_killed_worker_fails_its_unit_and_another_one_takes_its_place(tmp_path: Path) -> None:
    (results, pids), _ = _run(f"""
with ProcessExecutor(2, forks=True) as executor:
    units_ = [(os.getpid(), {str(tmp_path / "marker")!r})] * 3
    results = [str(result) for result in executor.run(units.killed_elsewhere, units_)]
    os.mkdir({str(tmp_path / "folder")!r})
    pids = list(executor.run(units.pid_after, [({str(tmp_path / "folder")!r}, 2)] * 2))
print(json.dumps([results, pids]))
""")
    assert sum("was killed by signal 9 while it ran a unit" in result for result in results) == 1
    assert len(set(pids) - {0}) == 2


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGTERM])
def test_all_workers_end_with_their_process(tmp_path: Path, way: signal.Signals) -> None:
    """A worker must not keep the pipe of another one open; and a handler of its process is not its own."""
    code = f"""
signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
list(ProcessExecutor(4, forks=True).run(units.endless, [{str(tmp_path / "unit")!r}] * 4))
"""
    with subprocess.Popen([sys.executable, "-c", _BEGIN + code]) as process:
        end = time.monotonic() + 20
        while len(pids := [int(path.name.partition("-")[2]) for path in tmp_path.iterdir()]) < 4:
            assert time.monotonic() < end
            time.sleep(0.02)
        victim = next(pid for pid in pids if pid != process.pid)
        os.kill(victim, signal.SIGINT)
        time.sleep(0.1)
        os.kill(victim, 0)
        os.kill(victim, signal.SIGTERM)
        process.send_signal(way)
    for pid in pids:
        wait_for_end(pid)


def test_an_idle_worker_has_ended_once_it_is_killed() -> None:
    (ended, results), _ = _run("""
with ProcessExecutor(2, forks=True) as executor:
    (worker,) = executor._workers
    ended = worker.has_ended
    os.kill(worker._process.pid, 9)
    while not worker.has_ended:
        time.sleep(0.01)
    executor.patience_s = 0.0
    results = list(executor.run(units.checked, [0, 2, 3, 4]))
print(json.dumps([ended, results]))
""")
    assert ended is False
    assert results == [0, 4, 6, 8]


def test_a_process_with_threads_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork.os, "fork", lambda: pytest.fail("a process with threads was copied"))
    event = threading.Event()
    thread = threading.Thread(target=event.wait)
    thread.start()
    try:
        with ProcessExecutor(2, forks=True) as executor:
            assert not executor._workers
            assert list(executor.run(abs, [-1, -2])) == [1, 2]
    finally:
        event.set()
        thread.join()


def test_without_room_for_a_copy_this_process_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room() -> int:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(fork.os, "fork", no_room)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    handles = len(os.listdir("/proc/self/fd"))
    with ProcessExecutor(3, forks=True) as executor:
        assert not executor._workers
        assert list(executor.run(abs, [-1, -2])) == [1, 2]
    assert len(os.listdir("/proc/self/fd")) == handles


def test_commands_fork_where_work_is_certain() -> None:
    """The workers of a compaction have its modules; a dry run needs none."""
    (certain, planned, imported), _ = _run("""
from lakecore.cli.engine import EngineOptions
def count(soon):
    with EngineOptions(processes=3).executors(soon=soon) as engines:
        return len(engines.local._workers)
planned = count(False)
imported = "lakecore.jobs.compact" in sys.modules
print(json.dumps([count(True), planned, [imported, "lakecore.jobs.compact" in sys.modules]]))
""")
    assert (certain, planned, imported) == (2, 0, [False, True])
