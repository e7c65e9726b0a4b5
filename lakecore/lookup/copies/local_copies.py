"""This module makes the copies of one process: in directories that processes share, if that is wanted, else
in directories of its own.

Where shared directories cannot be used (a full disk even without their copies, one that belongs to somebody
else, a process that does not go on with a copy), the process makes a copy of its own.
"""

from __future__ import annotations

import errno
import logging
import tempfile
import threading
from collections.abc import Iterator, Sequence

from lakecore.clock import Clock
from lakecore.errors import reason
from lakecore.lookup.copies.index_bytes import DamagedIndexError, decode_index, encode_index
from lakecore.lookup.copies.removal import files_to_remove
from lakecore.lookup.copies.shared_directory import NoProgressError, SharedDirectory
from lakecore.lookup.copies.shared_file import SharedFile
from lakecore.lookup.copies.source import CopyForm, CopySource, CopyWriter
from lakecore.lookup.query.block_cache import BlockCache
from lakecore.lookup.query.local_disk import LocalDisk
from lakecore.lookup.query.lookup_file import LookupFile

__all__ = ["OwnCopies", "SharedCopies"]

logger = logging.getLogger(__name__)

_FULL = (errno.ENOSPC, errno.EDQUOT)


class OwnCopies:
    """It makes copies in directories of this process, which are made with the first copy."""

    def __init__(self, directories: Sequence[str]) -> None:
        self.written = 0
        """So many copies were written."""
        self._directories = tuple(directories)
        self._lock = threading.Lock()
        self._disk: LocalDisk | None = None

    def make(self, source: CopySource, blocks: BlockCache) -> LookupFile:
        """Make a copy. Raises UnavailableError when all directories are full, and what reading raises."""
        with self._lock:
            if self._disk is None:
                self._disk = LocalDisk(self._directories)
            disk = self._disk
        parts, index = source.writer()
        stored = disk.write(parts)
        with self._lock:
            self.written += 1
        return LookupFile(stored, index(), blocks)

    def close(self) -> None:
        """Remove the directories."""
        with self._lock:
            if self._disk is not None:
                self._disk.close()
                self._disk = None


class SharedCopies:
    """It finds and makes copies in shared directories. Several threads may use it."""

    def __init__(self, parents: Sequence[str], clock: Clock) -> None:
        """Use directories of this user below each of these; without any, below TMPDIR."""
        self.written = 0
        """So many copies were written, not found."""
        self._clock = clock
        self._lock = threading.Lock()
        self._directories: list[SharedDirectory] = []
        for parent in tuple(parents) or (tempfile.gettempdir(),):
            try:
                self._directories.append(SharedDirectory(parent))
            except OSError as err:
                logger.warning("directory %s: lookups cannot share copies there: %s", parent, reason(err))

    def get(self, source: CopySource, blocks: BlockCache) -> LookupFile | None:
        """Return a copy that is there, or make it; None where that is impossible. Raises what reading
        raises.
        """
        form = source.form()
        existing = self._find(form, blocks)
        if existing is not None:
            return existing
        first = int(form.digest[:8], 16) % max(len(self._directories), 1)
        for directory in (*self._directories[first:], *self._directories[:first]):
            try:
                return self._make(directory, source, form, blocks)
            except NoProgressError:
                return None
            except OSError as err:
                logger.warning("directory %s: no copy could be made: %s", directory.path, reason(err))
        return None

    def tidy(self, retention_ms: int, most: int | None, spared: str | None = None) -> None:
        """Remove copies that were not used for the retention, the least recently used ones above `most` bytes
        over all directories, and what killed processes left. The copy at the path `spared` stays.
        """
        homes: dict[str, SharedDirectory] = {}
        files: list[SharedFile] = []
        for directory in self._directories:
            present = directory.files()
            files += present
            homes.update((file.path, directory) for file in present)
        now_ms = self._clock.now_ms()
        leaving = files_to_remove(files, now_ms=now_ms, retention_ms=retention_ms, most=most, spared=spared)
        for file in leaving:
            homes[file.path].remove(file)

    def _find(self, form: CopyForm, blocks: BlockCache) -> LookupFile | None:
        for directory in self._directories:
            stored = directory.find(form.digest)
            if stored is None:
                continue
            try:
                index = decode_index(stored.read, stored.size, form)
            except DamagedIndexError as err:
                logger.warning("local copy %s is damaged and is removed: %s", stored.path, err)
                stored.discard()
            else:
                stored.record_use(self._clock.now_ms())
                return LookupFile(stored, index, blocks)
        return None

    def _make(
        self, directory: SharedDirectory, source: CopySource, form: CopyForm, blocks: BlockCache
    ) -> LookupFile:
        with directory.turn(form.digest, self._clock) as handle:
            existing = self._find(form, blocks)  # made while this process waited for its turn
            if existing is not None:
                return existing
            writer = source.writer()
            now_ms = self._clock.now_ms()
            try:
                stored = directory.publish(form.digest, handle, _whole(writer, form), now_ms)
            except OSError as err:
                if err.errno not in _FULL or not self._make_room(directory):
                    raise
                stored = directory.publish(form.digest, handle, _whole(writer, form), now_ms)
            with self._lock:
                self.written += 1
            return LookupFile(stored, writer[1](), blocks)

    def _make_room(self, directory: SharedDirectory) -> bool:
        """Remove all copies of a directory; False if it has none. Processes that have them open keep the
        bytes until their next look at the directory.
        """
        files = [file for file in directory.files() if file.is_complete]
        for file in files:
            directory.remove(file)
        return bool(files)


def _whole(writer: CopyWriter, form: CopyForm) -> Iterator[bytes]:
    """Yield the blocks of a copy, and its index."""
    parts, index = writer
    yield from parts()
    yield encode_index(index(), form.digest)
