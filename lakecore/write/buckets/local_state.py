"""This module keeps the state of the buckets of a table on the local disk, where every commit of a stream is
made by another process of the same machine.

It is a cache: a file that is missing, damaged, or of another history of the table costs a read of all
manifests, and nothing else.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from contextlib import suppress

from lakecore.errors import LakeError
from lakecore.processes.private_directory import make_private_directory
from lakecore.store.paths import TablePaths
from lakecore.write.buckets.state_bytes import decode_state, encode_state
from lakecore.write.buckets.state_with_files import BucketStateWithFiles

__all__ = ["LocalState"]

logger = logging.getLogger(__name__)

_UNUSED_MS = 7 * 86_400_000
"""A file that no query has written for so long is removed."""


class LocalState:
    """It has the state of one branch of a table, in a directory of the user alone. Whoever uses the table
    checks that the snapshot of the state is one of its own.
    """

    def __init__(self, paths: TablePaths, parent: str | None = None) -> None:
        """Use a directory below `parent`, by default below the directory for temporary files. Nothing is read
        or written.
        """
        name = hashlib.sha256(f"{paths.table_path}\n{paths.branch}".encode()).hexdigest()
        self._directory = os.path.join(parent or tempfile.gettempdir(), f"lakecore-buckets-{os.getuid()}")
        self.path = os.path.join(self._directory, f"{name}.state")
        """This is the file of the state."""

    def load(self) -> BucketStateWithFiles | None:
        """Return the state that was stored last, without hash indexes; None if there is none that can be
        used.
        """
        try:
            make_private_directory(self._directory)
            with open(self.path, "rb") as file:
                return decode_state(file.read(), self.path)
        except FileNotFoundError:
            return None
        except (OSError, LakeError) as err:
            logger.info("the state of buckets cannot be read, so that all manifests are: %s", err)
            return None

    def save(self, state: BucketStateWithFiles, now_ms: int) -> None:
        """Store the state in place of the one before, at once. A failure is logged."""
        try:
            make_private_directory(self._directory)
            handle, path = tempfile.mkstemp(suffix=".tmp", dir=self._directory)
            try:
                with open(handle, "wb") as file:
                    file.write(encode_state(state))
                os.utime(path, (now_ms / 1000, now_ms / 1000))
                os.replace(path, self.path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(path)
                raise
            self._remove_unused(now_ms)
        except OSError as err:
            logger.info("the state of buckets cannot be stored, so that all manifests are read: %s", err)

    def _remove_unused(self, now_ms: int) -> None:
        with os.scandir(self._directory) as entries:
            for entry in entries:
                with suppress(OSError):
                    age_ms = now_ms - entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
                    if entry.name.endswith((".state", ".tmp")) and age_ms > _UNUSED_MS:
                        os.unlink(entry.path)
