"""Units for the Spark tests: functions that executors import."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.executor import count_proven_rows, count_rows
from lakecore.processes import unit_messages


class Unpicklable(Exception):
    """Loses its arguments on the way through pickle, as many exceptions of other libraries do."""

    def __init__(self, name: str, *, code: int) -> None:
        super().__init__(f"{name} {code}")


def double(number: int) -> int:
    return 2 * number


def after(marker: str | None) -> bool:
    """Return once the marker is there; False after a minute."""
    end = time.monotonic() + 60
    while marker is not None and not Path(marker).exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def broken(number: int) -> int:
    if number == 0:
        raise CorruptDataError("/lake/file-0", "bad magic")
    if number == 1:
        raise Unpicklable("odd", code=number)
    return number


def unpicklable_result(_: int) -> object:
    return lambda: None


def die_once(marker: str) -> str:
    """Killed on the first try, as by an out-of-memory killer."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "second try"


def die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class CountingUnit:
    """It has the name that progress needs."""

    name: str
    folder: str
    dies: bool = False


def count_and_wait(unit: CountingUnit) -> str:
    """Count rows, and end once the test has heard of them; if it dies, it is killed on the first try."""
    unit_messages.EVERY_S = 0.0
    first = Path(unit.folder) / f"{unit.name} has died"
    dies = unit.dies and not first.exists()
    count_rows(40 if dies else 30)
    count_proven_rows(5)
    after(str(Path(unit.folder) / f"heard of {unit.name}{' once' if dies else ''}"))
    if dies:
        first.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return unit.name


def wait(marker: str) -> None:
    """Tells that it runs, then takes longer than any test."""
    Path(marker).touch()
    time.sleep(120)
    Path(marker).with_suffix(".done").touch()


def wait_as_process(marker: str) -> None:
    """Tells the number of its process, then takes longer than any test."""
    Path(marker).write_text(f"{os.getpid()}")
    time.sleep(120)


def double_or_wait(task: int | str) -> int:
    """A number is doubled; a marker is one to wait with."""
    if isinstance(task, str):
        wait_as_process(task)
        return 0
    return 2 * task


def die_or_double(number: int) -> int:
    """Unit 0 takes its worker with it, and whatever shares its task."""
    if number == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def says(number: int) -> int:
    """Writes to standard error, as libraries do."""
    sys.stderr.write(f"unit {number} was here\n")
    sys.stderr.flush()
    return number
