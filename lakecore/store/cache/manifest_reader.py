"""This module reads the manifests of a table through the cache of its catalog."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from lakecore.data_class import dataclass
from lakecore.fs.confined import rights_of
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.entry_request import WHOLE, EntryRequest
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.cache.manifest_cache import ManifestCache
from lakecore.store.manifests import ManifestStore

__all__ = ["ManifestReader"]

_LINE_BYTES = 1024
_VECTOR_BYTES = 400
_ENTRY_BYTES = 400
"""An entry of a manifest takes about so many bytes when it is decoded."""


@dataclass(frozen=True, slots=True)
class _Part:
    """This is a manifest that is read."""

    file: ManifestFile
    entries: ManifestEntries | None
    """These are its entries in the cache, None without them."""
    is_small: bool
    """It tells whether the cache may keep it."""

    @property
    def kind(self) -> tuple[bool, bool]:
        """Return how it is read: neighbours of one kind are read together."""
        return self.entries is not None, self.is_small


@dataclass(frozen=True)
class ManifestReader:
    """It reads as `manifests` does, with the same results and errors, but for files that are lost or damaged
    after they were read: these are not asked for again.

    Files that one read needs are kept together or, when they do not fit, not at all.
    """

    manifests: ManifestStore
    cache: ManifestCache

    def read_list(self, name: str) -> tuple[ManifestFile, ...]:
        """Return the lines of a manifest list; see `ManifestStore.read_list`."""
        key = self._key("list", name)
        lines: tuple[ManifestFile, ...] | None = self._get(key)
        if lines is None:
            lines = self.manifests.read_list(name)
            self.cache.put(key, lines, _LINE_BYTES * (1 + len(lines)))
        return lines

    def read_index(self, name: str | None) -> tuple[IndexFile, ...]:
        """Return the index files of an index manifest; see `ManifestStore.read_index`."""
        if name is None:
            return ()
        key = self._key("index", name)
        files: tuple[IndexFile, ...] | None = self._get(key)
        if files is None:
            files = self.manifests.read_index(name)
            vectors = sum(len(file.deletions) for file in files)
            self.cache.put(key, files, _LINE_BYTES * (1 + len(files)) + _VECTOR_BYTES * vectors, vectors)
        return files

    def data_manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """Return the manifests whose entries make the table at `snapshot`: base, then delta."""
        return self.read_list(snapshot.base_manifest_list) + self.read_list(snapshot.delta_manifest_list)

    def read(self, files: Sequence[ManifestFile], request: EntryRequest = WHOLE) -> ManifestEntries:
        """Return the entries of these manifests, in order; see `ManifestStore.read`. The first read of a
        manifest decodes it as a whole, whatever the request.
        """
        limits = self.cache.limits
        small = [file for file in files if file.file_size <= limits.threshold]
        if not small or sum(_ENTRY_BYTES * file.entry_count for file in small) > limits.memory:
            return self.manifests.read(files, request)
        parts = [self._part(file, request) for file in files]
        entries: list[ManifestEntries] = []
        for (in_cache, is_small), group in groupby(parts, key=lambda part: part.kind):
            neighbours = list(group)
            if in_cache:
                entries += [part.entries for part in neighbours if part.entries is not None]
            elif is_small:
                entries += self._decode([part.file for part in neighbours], request)
            else:
                entries.append(self.manifests.read([part.file for part in neighbours], request))
        present = [part for part in entries if len(part) or part.left_out]
        return ManifestEntries.concat(present or entries[:1])

    def _part(self, file: ManifestFile, request: EntryRequest) -> _Part:
        """Return a manifest with its entries, if the cache has them, with keys if these are asked for."""
        if file.file_size > self.cache.limits.threshold:
            return _Part(file, None, is_small=False)
        value: tuple[ManifestEntries, bool] | None = self._get(self._key("manifest", file.file_name))
        if value is None:
            return _Part(file, None, is_small=True)
        entries, has_keys = value
        fits = len(entries) == file.entry_count and (has_keys or not request.keys)
        return _Part(file, entries.without_cache() if fits else None, is_small=True)

    def _decode(self, files: Sequence[ManifestFile], request: EntryRequest) -> Iterator[ManifestEntries]:
        """Yield the entries manifest by manifest, and keep them."""
        for file, entries in zip(files, self.manifests.read_each(files, request), strict=True):
            copy = entries.own_copy().frozen()
            self.cache.put(self._key("manifest", file.file_name), (copy, request.keys), copy.memory)
            yield copy.without_cache()

    def _get(self, key: tuple[str, str]) -> Any | None:
        """Return what the cache has of a key. Raises PrivilegeError as a read of the file would."""
        rights = rights_of(self.manifests.file_io)
        if rights is not None:
            rights.check_read_file()
        return self.cache.get(key)

    def _key(self, kind: str, name: str) -> tuple[str, str]:
        return kind, self.manifests.paths.manifest(name)
