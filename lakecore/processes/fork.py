"""This module makes workers as copies of this process, which have its modules and need no start of their own.

A copy of a process has none of its threads, and a lock that one of them held stays locked. So workers are
forked while this process has no other thread of Python and has opened neither catalogs nor files: at the
beginning of a command. The threads that numpy and pyarrow start with their imports are prepared for copies.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import IO, NoReturn

from lakecore.processes.worker import serve

__all__ = ["ChildProcess", "can_fork", "fork_workers"]


class ChildProcess:
    """It is a worker that was forked, with the names of `subprocess.Popen`. Several threads may use it."""

    def __init__(self, pid: int, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self._code: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while the process runs."""
        with self._lock:
            return self._code_after(os.WNOHANG)

    def wait(self) -> int:
        """Return the exit code as soon as the process has ended."""
        with self._lock:
            code = self._code_after(0)
        assert code is not None
        return code

    def kill(self) -> None:
        """Send SIGKILL, unless the process is known to have ended."""
        with self._lock:
            if self._code_after(os.WNOHANG) is None:
                os.kill(self.pid, signal.SIGKILL)

    def _code_after(self, options: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


def can_fork() -> bool:
    """Return whether a copy of this process would be whole: on Linux, with one thread of Python."""
    return sys.platform == "linux" and threading.active_count() == 1


def fork_workers(count: int) -> Sequence[ChildProcess]:
    """Create so many workers as copies of this process, or fewer where the machine has no room for more."""
    workers: list[ChildProcess] = []
    for _ in range(count):
        try:
            workers.append(_fork(workers))
        except OSError as err:
            logging.getLogger(__name__).warning("no further worker process can be forked: %s", err)
            break
    return workers


def _fork(earlier: Sequence[ChildProcess]) -> ChildProcess:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    units, answers = os.pipe(), os.pipe()
    try:
        pid = os.fork()
    except OSError:
        for end in (*units, *answers):
            os.close(end)
        raise
    if pid == 0:
        _run_as_worker(units, answers, earlier)
    os.close(units[0])
    os.close(answers[1])
    return ChildProcess(pid, os.fdopen(units[1], "wb"), os.fdopen(answers[0], "rb"))


def _run_as_worker(
    units: tuple[int, int], answers: tuple[int, int], earlier: Sequence[ChildProcess]
) -> NoReturn:
    """Be a worker until the end. The pipes of earlier workers are closed, which would not notice the end of
    their process otherwise.
    """
    try:
        for end in (units[1], answers[0]):
            os.close(end)
        for other in earlier:
            os.close(other.stdin.fileno())
            os.close(other.stdout.fileno())
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        logging.basicConfig(level=logging.WARNING, force=True)
        serve(os.fdopen(units[0], "rb"), os.fdopen(answers[1], "wb"))
    finally:
        os._exit(1)
