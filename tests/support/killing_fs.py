"""A local disk that kills its process with SIGKILL at a chosen operation, and processes that run on it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakecore.fs.local import LocalFileIO
from tests.support.fault_fs import FaultyFileIO

__all__ = ["CHANGES", "KillPoint", "KillingFileIO", "run_and_die"]


CHANGES = ("close", "delete", "move", "open_output", "overwrite", "publish", "write", "write_new")


@dataclass(frozen=True, kw_only=True)
class KillPoint:
    """Operation `name` on a path that contains `part`, the `nth` time; `after` its effect, or instead of it.

    `name` "": any operation that changes something.

    `once`: a file to be made first, with the command of the grandparent; while it exists nothing is killed.
    `grandparent`: kill that too; of a Python worker of Spark it is the executor.
    """

    name: str
    part: str
    after: bool = False
    nth: int = 1
    once: str | None = None
    grandparent: bool = False


class KillingFileIO(FaultyFileIO):
    """Dies at the point. Pickles, so that a Spark worker can die of it."""

    def __init__(self, point: KillPoint) -> None:
        super().__init__(LocalFileIO(sync=False))
        self.point = point
        self._seen = 0

    def __reduce__(self) -> tuple[type[KillingFileIO], tuple[KillPoint]]:
        return KillingFileIO, (self.point,)

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        point = self.point
        if (name != point.name if point.name else name not in CHANGES) or point.part not in path:
            return effect()
        self._seen += 1
        if self._seen != point.nth:
            return effect()
        if point.once is not None:
            if Path(point.once).exists():
                return effect()
            Path(point.once).write_text(_command(_grandparent()))
        if point.after:
            effect()
        if point.grandparent:
            os.kill(_grandparent(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("still alive")


def _grandparent() -> int:
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def _command(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")


def run_and_die(point: KillPoint | None, function: Callable[..., object], *arguments: object) -> None:
    """Call `function` in a process of its own, with all local storage behind `point`; it has to die of it.

    `point` None: in the middle of the atomic creation of a file. The process is forked from a server that
    has the imports done, and no threads.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lakecore.jobs.compact", "lakecore.cli.main", "tests.support.chores"])
    process = context.Process(target=_doomed, args=(point, function, arguments))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL, f"not killed: exit code {process.exitcode}"


def _doomed(point: KillPoint | None, function: Callable[..., object], arguments: tuple[object, ...]) -> None:
    from lakecore.catalog import filesystem

    if point is None:
        os.link = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    else:
        filesystem.file_io_for = lambda *_: KillingFileIO(point)  # type: ignore[assignment]
    function(*arguments)
