"""Units for the tests of processes: functions that workers import."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from lakecore.errors import CorruptDataError
from lakecore.executor import count_rows, run_counted
from lakecore.processes import unit_messages


def pid_after(others: tuple[str, int]) -> int:
    """Wait until so many units are in a directory at once, and return the process; 0 after 20 s."""
    folder, count = others
    (Path(folder) / f"{os.getpid()}").touch()
    _wait_for(lambda: len(os.listdir(folder)) >= count, 20)
    return os.getpid() if len(os.listdir(folder)) >= count else 0


def checked(number: int) -> int:
    """Print, because what units print is no answer; the unit 1 fails."""
    print("a unit prints", number)
    time.sleep(0.15)
    if number == 1:
        raise CorruptDataError("/lake/file-1", "bad magic")
    return 2 * number


def unpicklable(others: tuple[str, int]) -> object:
    """Return what no other process can get, once so many units run at once."""
    pid_after(others)
    return lambda: None


def killed_elsewhere(main_and_marker: tuple[int, str]) -> int:
    """In the process `main`, wait until a unit in another one makes the marker, and is killed as for lack of memory."""
    main, marker = main_and_marker
    if os.getpid() != main:
        Path(marker).touch()
        os.kill(os.getpid(), 9)
    _wait_for(Path(marker).exists, 20)
    return main


def endless(marker: str) -> None:
    """Name the process in a file, and run until it is killed; in the process of the test, until another one did so."""
    folder, name = os.path.split(marker)
    Path(f"{marker}-{os.getpid()}").touch()
    if os.environ.get("PYTEST_PROCESS") == str(os.getpid()):
        _wait_for(lambda: sum(other.startswith(name) for other in os.listdir(folder)) > 1, 5)
    else:
        time.sleep(600)


def tell_at_once(_: int) -> int:
    """Let the messages of later units of this process not wait."""
    unit_messages.EVERY_S = 0.0
    return 0


class NamedUnit:
    """It has the name that progress needs, and what its function needs."""

    def __init__(self, name: str, marker: str, main: int) -> None:
        self.name = name
        self.marker = marker
        self.main = main


def counted_then_killed(unit: NamedUnit) -> int:
    """Count ten rows, then, unless in the process `main`, make the marker and be killed."""
    if os.getpid() != unit.main:
        tell_at_once(0)
    return run_counted(_count_then_end, unit)


def _count_then_end(unit: NamedUnit) -> int:
    for _ in range(10):
        count_rows(1)
    if os.getpid() != unit.main:
        Path(unit.marker).touch()
        os.kill(os.getpid(), 9)
    _wait_for(Path(unit.marker).exists, 20)
    return 10


def _wait_for(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
