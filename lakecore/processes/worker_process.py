"""This module has a worker as the process sees it that started it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from lakecore.errors import UnavailableError
from lakecore.executor import unit_listener
from lakecore.processes.fork import ChildProcess
from lakecore.processes.frames import Frame, read_frame, write_frame
from lakecore.processes.unit_messages import decode_message

__all__ = ["WorkerProcess"]

_START = "from lakecore.processes.worker import main; main()"


class WorkerProcess:
    """This process runs one unit after another."""

    def __init__(self, process: ChildProcess | None = None) -> None:
        """Use this process, or start one. Raises OSError if none can be started."""
        self._process = process or _start_process()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._units, self._answers = self._process.stdin, self._process.stdout
        self._is_killed = False

    @property
    def has_ended(self) -> bool:
        return self._is_killed or self._process.poll() is not None

    def run(self, function: Callable[[Any], Any], task: Any) -> Any:
        """Return the result of a unit, or the exception that it raised; whoever listens to units here hears
        what it tells. Raises UnavailableError if the worker ended, and what pickle raises for a unit that it
        cannot carry.
        """
        payload = pickle.dumps((function, task))
        try:
            write_frame(self._units, Frame(payload))
            answer = self._answer()
        except OSError:
            answer = None
        if answer is None:
            self._raise_lost()
        return pickle.loads(answer.data)

    def _answer(self) -> Frame | None:
        """Return the result, after the messages before it; None when the worker has ended."""
        listener = unit_listener()
        while (frame := read_frame(self._answers)) is not None and frame.is_message:
            if listener is not None:
                for work in decode_message(frame.data):
                    listener(work)
        return frame

    def kill(self) -> None:
        """End the process with SIGKILL. It counts as ended at once, although the signal takes a moment."""
        self._is_killed = True
        self._process.kill()

    def join(self) -> None:
        """Wait for the end of a killed process, and close its pipes."""
        self._process.wait()
        for pipe in (self._units, self._answers):
            with suppress(OSError):  # what was not sent is lost with the worker
                pipe.close()

    def _raise_lost(self) -> NoReturn:
        code = self._process.wait()
        end = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise UnavailableError(
            f"the worker process {self._process.pid} {end} while it ran a unit; it may have been killed for "
            "lack of memory: run again with fewer processes (--processes 1)"
        )


def _start_process() -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-c", _START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    )
