"""What the driver's JVM and its Python workers write to standard error: kept apart, told when a run fails.

Spark warns of modules, of its logging and of pipes that its own end closes, whether or not anything is wrong.
A run that succeeds says nothing of that; one that fails says all of it, for the cause may be there.
"""

from __future__ import annotations

import logging
import os
import tempfile
from typing import IO, Any

__all__ = ["KeptStderr"]

logger = logging.getLogger(__name__)

_MOST = 1 << 20
"""Bytes that are told, the last ones."""


class KeptStderr:
    """A file without a name, for a JVM that lives as long as this process; its sessions follow each other."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="lakecore-spark-")  # noqa: SIM115 - the JVM writes to it

    @property
    def file(self) -> IO[Any]:
        """For the JVM. Only it moves the position in the file."""
        return self._file

    def end(self) -> int:
        """Bytes that were written by now: where a session begins."""
        return os.fstat(self._file.fileno()).st_size

    def since(self, start: int) -> str:
        """What was written from there on, as far as it is told."""
        end = self.end()
        first = max(start, end - _MOST)
        text = os.pread(self._file.fileno(), end - first, first).decode(errors="replace")
        return f"… ({first - start} bytes before)\n{text}" if first > start else text
