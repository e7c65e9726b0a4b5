"""This module removes what a failed write created."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from lakecore.errors import LakeError
from lakecore.fs.file_io import FileIO

__all__ = ["remove_created"]

logger = logging.getLogger(__name__)


class _Writer(Protocol):
    def abort(self) -> None: ...


def remove_created(file_io: FileIO, writers: Iterable[tuple[str, _Writer]], paths: Iterable[str]) -> None:
    """Remove open files through their writers, each with its name for the log, and delete `paths`.

    A file that storage refuses to remove is logged: it stays as an orphan, which no reader sees.
    """
    for name, writer in writers:
        with _log_failure(name):
            writer.abort()
    for path in paths:
        with _log_failure(path):
            file_io.delete(path)


@contextmanager
def _log_failure(name: str) -> Iterator[None]:
    try:
        yield
    except LakeError as err:
        logger.warning("file %s of a failed write could not be removed: %s", name, err)
