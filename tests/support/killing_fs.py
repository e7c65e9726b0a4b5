"""A local disk that kills its process with SIGKILL at a chosen operation, and processes that run on it."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakecore.fs.local import LocalFileIO
from tests.support.fault_fs import FaultyFileIO

__all__ = ["CHANGES", "ChangingFileIO", "KillPoint", "KillingFileIO", "exit_code", "run_and_die"]


CHANGES = (
    "close",
    "delete",
    "make_directory",
    "move",
    "move_directory",
    "open_output",
    "overwrite",
    "publish",
    "remove_directory",
    "write",
    "write_new",
)


@dataclass(frozen=True, kw_only=True)
class KillPoint:
    """Operation `name` on a path that contains `part`, the `nth` time; `after` its effect, or instead of it.

    `name` "": any operation that changes something.

    `once`: a file to be made first, with the command of the grandparent; while it exists nothing is killed.
    `grandparent`: kill that too; of a Python worker of Spark it is the executor. `spared`: a process that goes on.
    """

    name: str
    part: str
    after: bool = False
    nth: int = 1
    once: str | None = None
    grandparent: bool = False
    spared: int | None = None


class KillingFileIO(FaultyFileIO):
    """Dies at the point. Pickles, so that a Spark worker can die of it."""

    def __init__(self, point: KillPoint) -> None:
        super().__init__(LocalFileIO(sync=False))
        self.point = point
        self._numbers = itertools.count(1)

    def __reduce__(self) -> tuple[type[KillingFileIO], tuple[KillPoint]]:
        return KillingFileIO, (self.point,)

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        point = self.point
        if (
            point.spared == os.getpid()
            or (name != point.name if point.name else name not in CHANGES)
            or point.part not in path
        ):
            return effect()
        if next(self._numbers) != point.nth:
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


class ChangingFileIO(FaultyFileIO):
    """A local disk that counts how often it changes, and kills its process after change number `last` (0: never).

    A file that is made changes the disk as it appears and as it is whole; publishing, overwriting and moving
    do so in the middle, too: a complete temporary file is there, then a file has two names.
    """

    def __init__(self, last: int = 0) -> None:
        super().__init__(LocalFileIO(sync=False))
        self._last = last
        self._counting = threading.Lock()
        self._two_names = threading.local()

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        result = effect()
        if name in CHANGES and name != "write":  # bytes stay in a buffer until the file is closed
            self._changed(f"{name} {path}")
        return result

    def _changed(self, what: str) -> None:
        with self._counting:
            self.log.append(what)
            if len(self.log) == self._last:
                os.kill(os.getpid(), signal.SIGKILL)

    @contextlib.contextmanager
    def within(self) -> Iterator[None]:
        """Counts in the middle of operations, too, as long as it is entered."""
        link, replace, unlink = os.link, os.replace, os.unlink

        def counted_link(source: str, target: str, **more: Any) -> None:
            self._changed(f"before link {target}")
            self._two_names.set = True
            link(source, target, **more)

        def counted_replace(source: str, target: str, **more: Any) -> None:
            self._changed(f"before replace {target}")
            replace(source, target, **more)

        def counted_unlink(path: str, **more: Any) -> None:
            if getattr(self._two_names, "set", False):
                self._two_names.set = False
                self._changed(f"two names {path}")
            unlink(path, **more)

        os.link, os.replace, os.unlink = counted_link, counted_replace, counted_unlink  # type: ignore[assignment]
        try:
            yield
        finally:
            os.link, os.replace, os.unlink = link, replace, unlink


def _grandparent() -> int:
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def _command(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")


def run_and_die(point: KillPoint | int | None, function: Callable[..., object], *arguments: object) -> None:
    """Call `function` in a process of its own, with all local storage behind `point`; it has to die of it.

    `point` None: in the middle of the atomic creation of a file; a number: see `ChangingFileIO`. The process is forked from a server that
    has the imports done, and no threads.
    """
    code = exit_code(point, function, *arguments)
    assert code == -signal.SIGKILL, f"not killed: exit code {code}"


def exit_code(
    point: KillPoint | int | None, function: Callable[..., object], *arguments: object
) -> int | None:
    """As `run_and_die`, but the process may end; its exit code."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["lakecore.jobs.compact", "lakecore.cli.main", "tests.support.chores", "pandas"]
    )
    process = context.Process(target=_doomed, args=(point, function, arguments))
    process.start()
    process.join(120)
    return process.exitcode


def _doomed(
    point: KillPoint | int | None, function: Callable[..., object], arguments: tuple[object, ...]
) -> None:
    from lakecore.catalog.warehouse import opened_warehouse
    from lakecore.store import settle_time

    assert hasattr(opened_warehouse, "file_io_for"), "the catalogs open storage elsewhere now"
    settle_time._LOCAL_MS = 1  # as in the process of the tests: nobody else writes
    if isinstance(point, int):
        storage = ChangingFileIO(point)
        opened_warehouse.file_io_for = lambda *_: storage  # type: ignore[assignment]
        with storage.within():
            function(*arguments)
        return
    if point is None:
        os.link = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    else:
        opened_warehouse.file_io_for = lambda *_: KillingFileIO(point)  # type: ignore[assignment]
    function(*arguments)
