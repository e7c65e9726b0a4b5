"""This module is a worker: a process that runs the units that it reads from a pipe.

It ends with the process that started it: a thread waits for the end of the pipe, and ends the worker in the
middle of a unit. What that unit has written belongs to no snapshot.
"""

from __future__ import annotations

import io
import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from typing import IO, NoReturn

from lakecore.executor import UnitWork
from lakecore.processes.frames import Frame, read_frame, write_frame
from lakecore.processes.unit_bytes import run_unit
from lakecore.processes.unit_messages import encode_message
from lakecore.types.pandas_probe import skip_pandas

__all__ = ["main", "serve"]


def main() -> None:
    """Run the units of the standard input until it ends."""
    serve(sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb"))


def serve(source: IO[bytes], answers: IO[bytes]) -> NoReturn:
    """Run units until the source ends, which ends the process. What units print goes to the standard error
    output.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started it ends it
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):  # the worker ends without a flush
        sys.stdout.reconfigure(line_buffering=True)
    units: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(source, units), daemon=True).start()
    skip_pandas()

    def send(works: Sequence[UnitWork]) -> None:
        write_frame(answers, Frame(encode_message(works), is_message=True))

    while True:
        write_frame(answers, Frame(run_unit(units.get(), send)))


def _read(source: IO[bytes], units: queue.SimpleQueue[bytes]) -> None:
    while (frame := read_frame(source)) is not None:
        units.put(frame.data)
    os._exit(0)
