"""This module captures the standard error of the driver's JVM and its Python workers, and prints it when a
run fails.

Spark warns of modules, of its logging and of pipes that its own end closes, whether or not anything is wrong.
A run that succeeds prints nothing of that; one that fails prints all of it, for the cause may be there.
"""

from __future__ import annotations

import logging
import os
import tempfile
from typing import IO, Any

__all__ = ["StderrCapture"]

logger = logging.getLogger(__name__)

_MOST = 1 << 20
"""Bytes that are told, the last ones."""


class StderrCapture:
    """This is an unnamed file for a JVM that lives as long as this process; its sessions follow each
    other.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="lakecore-spark-")  # noqa: SIM115 - the JVM writes to it

    @property
    def file(self) -> IO[Any]:
        """Return the file for the JVM. Only the JVM moves the position in it."""
        return self._file

    def end(self) -> int:
        """Return the bytes that were written so far: where a session begins."""
        return os.fstat(self._file.fileno()).st_size

    def since(self, start: int) -> str:
        """Return what was written from `start` on, limited to the last bytes that are printed."""
        end = self.end()
        first = max(start, end - _MOST)
        text = os.pread(self._file.fileno(), end - first, first).decode(errors="replace")
        return f"… ({first - start} bytes before)\n{text}" if first > start else text
