"""Manifests, manifest lists and index manifests of one table: the store reads them and rolls new ones."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field
from itertools import accumulate, pairwise

from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, InvalidOptionError, LakeError
from lakecore.format.manifest.index_manifests import decode_index_manifest, encode_index_manifest
from lakecore.format.manifest.manifests import (
    MANY_ENTRIES,
    count_entries,
    decode_manifest,
    decode_manifest_list,
    decode_manifests,
    encode_manifest_list,
    encode_manifests,
)
from lakecore.fs.file_io import FileIO
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.entry_request import WHOLE, EntryRequest
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.manifest.manifest_stats import describe_manifest
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.options import Option, parse_size
from lakecore.store.decoded_cache import DecodedCache
from lakecore.store.paths import TablePaths

__all__ = ["MANIFEST_FORMAT", "MANIFEST_TARGET_SIZE", "ManifestStore"]

logger = logging.getLogger(__name__)

MANIFEST_TARGET_SIZE = Option(
    "manifest.target-file-size", parse_size, 8 << 20, "Size from which a manifest is complete, in bytes."
)
MANIFEST_FORMAT = Option("manifest.format", str.lower, "avro", "File format of manifests.")
_MANY_FILES = 16
_READERS = 4
_FORMATS = ("avro", "parquet", "orc")
_MANIFESTS: DecodedCache[ManifestEntries] = DecodedCache(10_000)  # some 2 kB an entry
_LISTS: DecodedCache[tuple[ManifestFile, ...]] = DecodedCache(10_000)


@dataclass(frozen=True)
class ManifestStore:
    """This is the directory `manifest/` of a table (all branches). `schema` gives partition columns and
    options.
    """

    file_io: FileIO
    paths: TablePaths
    schema: TableSchema
    clock: Clock = field(default_factory=SystemClock)

    @property
    def target_size(self) -> int:
        """Return the size in bytes at which a new manifest ends."""
        return MANIFEST_TARGET_SIZE.read(self.schema.options)

    @property
    def file_format(self) -> str:
        """Return the format of new manifests. Raises InvalidOptionError."""
        kind = MANIFEST_FORMAT.read(self.schema.options)
        if kind not in _FORMATS:
            raise InvalidOptionError(f"option manifest.format={kind!r}: must be one of {', '.join(_FORMATS)}")
        return kind

    def read_list(self, name: str) -> tuple[ManifestFile, ...]:
        """Return the lines of a manifest list. Raises NotFoundError, CorruptDataError, UnsupportedError."""
        path = self.paths.manifest(name)
        return _LISTS.of(self.file_io.read(path), path, decode_manifest_list)

    def read_index(self, name: str | None) -> tuple[IndexFile, ...]:
        """Return the index files of an index manifest; none if the snapshot has none. It raises as
        `read_list` does.
        """
        if name is None:
            return ()
        path = self.paths.manifest(name)
        return decode_index_manifest(self.file_io.read(path), path)

    def data_manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """Return the manifests whose entries make the table at `snapshot`: base, then delta."""
        return self.read_list(snapshot.base_manifest_list) + self.read_list(snapshot.delta_manifest_list)

    def read(self, files: Sequence[ManifestFile], request: EntryRequest = WHOLE) -> ManifestEntries:
        """Return the entries of these manifests, in order, ADD and DELETE: all of them, or at least those of
        the request.

        Raises NotFoundError, CorruptDataError (also when a manifest holds other counts than its list
        says).
        """
        paths = [self.paths.manifest(file.file_name) for file in files]
        listed = sum(file.entry_count for file in files)
        contents = self._contents(paths)
        if listed < MANY_ENTRIES:
            parts = [_MANIFESTS.of(data, path, _frozen) for data, path in contents]
            entries = ManifestEntries.concat([part for part in parts if len(part)] or parts[:1])
        else:
            entries = decode_manifests(contents, request)
            logger.info(
                "%s: %d entries of %d manifests were decoded, %d of them record by record",
                self.paths.table_path, len(entries), len(files), entries.slow_entries,
            )  # fmt: skip
        live_count = len(entries) + entries.left_out
        if live_count == listed:
            return entries
        if len(files) == 1:
            raise CorruptDataError(
                paths[0], f"holds {live_count} entries, but the manifest list records {listed}"
            )
        for file in files:
            self.read([file])
        raise CorruptDataError(self.paths.manifest_dir, "has manifests that changed while they were read")

    def read_each(
        self, files: Sequence[ManifestFile], request: EntryRequest = WHOLE
    ) -> list[ManifestEntries]:
        """Return the entries manifest by manifest; of a request only `keys` counts. It raises as `read` does.

        Many small manifests are decoded together; they share their details, which stay in memory as long
        as one of them does.
        """
        request = EntryRequest(keys=request.keys)
        if len(files) > 1 and sum(file.entry_count for file in files) >= MANY_ENTRIES:
            counts: list[int | None] = []
            paths = [self.paths.manifest(file.file_name) for file in files]
            entries = decode_manifests(_count(self._contents(paths), counts), request)
            listed = [file.entry_count for file in files]
            if counts == listed and len(entries) == sum(listed):
                ends = list(accumulate(listed, initial=0))
                return [entries.select(slice(low, high)) for low, high in pairwise(ends)]
        return [self.read([file], request) for file in files]

    def _contents(self, paths: Sequence[str]) -> Iterator[tuple[bytes, str]]:
        """Yield the content of each file and its path, in order. Many files are prefetched, so that latencies
        overlap.
        """
        if len(paths) < _MANY_FILES:
            yield from ((self.file_io.read(path), path) for path in paths)
            return
        with ThreadPoolExecutor(_READERS, thread_name_prefix="manifest") as pool:
            ahead: deque[Future[bytes]] = deque()
            for number, path in enumerate(paths):
                while number + len(ahead) < len(paths) and len(ahead) < _READERS:
                    ahead.append(pool.submit(self.file_io.read, paths[number + len(ahead)]))
                yield ahead.popleft().result(), path

    def write(self, entries: ManifestEntries) -> tuple[ManifestFile, ...]:
        """Write new manifests with `entries`, rolled at the target size; a failure leaves none behind."""
        return self.write_parts([entries])

    def write_parts(self, parts: Iterable[ManifestEntries]) -> tuple[ManifestFile, ...]:
        """Write new manifests with the entries of all `parts`, as `write` does. In memory are those of one
        manifest and of one part.
        """
        unique = ""
        written: list[ManifestFile] = []
        encoded = encode_manifests(parts, self.target_size, self.file_format)
        try:
            for part, data in encoded:
                unique = unique or self.clock.fresh_id()
                name = f"manifest-{unique}-{len(written)}"
                self._write_new(name, data)
                written.append(describe_manifest(part, name, len(data), self.schema.partition_type))
                del part, data  # before the next ones are made
        except BaseException:
            for file in written:
                self._discard(file.file_name)
            raise
        return tuple(written)

    def write_list(self, files: Sequence[ManifestFile]) -> tuple[str, int]:
        """Write a new manifest list; return its name and size in bytes."""
        name = f"manifest-list-{self.clock.fresh_id()}-0"
        data = encode_manifest_list(files, self.file_format)
        self._write_new(name, data)
        return name, len(data)

    def write_index(self, files: Sequence[IndexFile]) -> str:
        """Write a new, complete index manifest; return its name."""
        name = f"index-manifest-{self.clock.fresh_id()}-0"
        self._write_new(name, encode_index_manifest(files, self.file_format))
        return name

    def delete(self, name: str) -> None:
        """Delete a manifest or list that no snapshot refers to."""
        self.file_io.delete(self.paths.manifest(name))

    def _write_new(self, name: str, data: bytes) -> None:
        """Write a manifest under a fresh name. After a failure, whatever has the name came from the failed
        write and is removed.
        """
        try:
            self.file_io.write_new(self.paths.manifest(name), data)
        except BaseException:
            self._discard(name)
            raise

    def _discard(self, name: str) -> None:
        try:
            self.delete(name)
        except LakeError as err:
            logger.warning("%s of a failed write could not be removed: %s", self.paths.manifest(name), err)


def _count(contents: Iterable[tuple[bytes, str]], counts: list[int | None]) -> Iterator[tuple[bytes, str]]:
    """Yield the contents unchanged, and append the number of entries of each to `counts`."""
    for data, path in contents:
        counts.append(count_entries(data, path))
        yield data, path


def _frozen(data: bytes, path: str) -> ManifestEntries:
    return decode_manifest(data, path).frozen()
