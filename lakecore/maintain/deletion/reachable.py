"""This module finds which files roots reach, and which of given candidates none of them reaches.

Rules of the format. A snapshot needs its lists, their manifests, the files live in them, its changelog files,
index files and statistics. A tag needs the same without the changelog: that goes with the snapshot. A
changelog that outlived its snapshot needs its changelog files; where the table's producer is `none`, instead
what its delta named of files that writers (not compactions) made, with both its lists.

Cost: every list and manifest of the roots is read once, however many share it, in groups, some 2-6 us an
entry; of the entries only those are kept whose file is a candidate. Memory: 8 bytes a candidate, the entries
that are about one, and the groups being decoded (each 8 MB of manifests, or one manifest).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import chain
from typing import TypeVar

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.format.manifest.index_manifests import decode_index_manifest
from lakecore.fs.resolve import plain_path
from lakecore.maintain.deletion.candidates import Candidates, ReferencedFiles
from lakecore.maintain.deletion.hashed_names import NO_NAMES, Hashes, name_set, within
from lakecore.maintain.deletion.roots import Root, RootKind
from lakecore.maintain.target import Target, in_threads
from lakecore.metadata.manifest.data_file import EntryKind, FileSource
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.options import INDEX_BESIDE_DATA, ChangelogProducer, TableOptions
from lakecore.metadata.snapshot import Snapshot
from lakecore.verify.fsck.references import bucket_directory

__all__ = ["NamedFiles", "Reach", "grouped"]

T = TypeVar("T")

_GROUP_BYTES = 8 << 20
_GROUP_ENTRIES = 50_000
_DECODERS = 2


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """These are the hashes of all data files that any entry names and of those that a DELETE names, and
    all extra files.
    """

    names: Hashes
    deleted: Hashes
    extras: frozenset[str]


@dataclass
class Reach:
    """It reads what roots refer to. With `strict` a file that is missing is an error, else it is left out."""

    target: Target
    strict: bool = True
    _lists: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _manifests: dict[str, ManifestFile] = field(default_factory=dict)
    _index: dict[str, tuple[IndexFile, ...]] = field(default_factory=dict)
    _about: dict[str, ManifestEntries] = field(default_factory=dict)
    _sought: Hashes = field(default_factory=lambda: NO_NAMES)

    def metadata(self, roots: Sequence[Root]) -> dict[str, int]:
        """Return the paths and sizes of lists, manifests, index manifests, index files and statistics."""
        self._load_lists(roots)
        out: dict[str, int] = {}
        for root in roots:
            out.update(self._lists_of(root))
            out.update(self._side_files(root))
        return out

    def data(self, roots: Sequence[Root], hashes: Hashes) -> ReferencedFiles:
        """Return which data and changelog files among `hashes` (hashes of names) the roots reach, exactly."""
        self._want(hashes)
        if not len(self._sought):
            return ReferencedFiles(NO_NAMES, frozenset())
        self._load_lists(roots)
        self._load_entries(roots)
        names: list[Hashes] = []
        extras: set[str] = set()
        for root in roots:
            for part in self._needed_entries(root):
                names.append(part.name_hash)
                special = np.flatnonzero(part.extra_hash != 0)
                extras.update(name for file in part.files(special) for name in file.extra_files)
        return ReferencedFiles(name_set(names), frozenset(extras))

    def candidates(self, lists: Iterable[str], kind: EntryKind) -> Candidates:
        """Return the files that the ADD or DELETE entries of all manifests of these lists name."""
        names = list(dict.fromkeys(lists))
        self._fetch(names)
        files = list(dict.fromkeys(file for name in names for file in self._lists[name]))
        return Candidates.joined(self._groups(files, lambda group: self._candidates(group, kind)))

    def _candidates(self, group: Sequence[ManifestFile], kind: EntryKind) -> Candidates:
        entries = self._entries(group)
        return Candidates.of(self.target, entries.select(entries.kind == kind))

    def named_files(self, roots: Sequence[Root]) -> NamedFiles:
        """Return the files that any entry of the roots' manifests names."""
        self._load_lists(roots)
        files = list(
            dict.fromkeys(n for root in roots for name in _all_lists(root) for n in self._list(name))
        )
        parts = list(self._groups(files, lambda group: _mentioned_files(self._entries(group))))
        return NamedFiles(
            name_set(part.names for part in parts),
            name_set(part.deleted for part in parts),
            frozenset().union(*(part.extras for part in parts)),
        )

    def _groups(self, names: Sequence[str], work: Callable[[list[ManifestFile]], T]) -> Iterator[T]:
        """Yield the results of `work` on groups of these manifests, in order; several run at once, so `work`
        should keep little of them.
        """
        return in_threads(work, grouped(self._manifests[name] for name in names), _DECODERS)

    def _entries(self, group: Sequence[ManifestFile]) -> ManifestEntries:
        try:
            return self.target.manifests.read(group)
        except (NotFoundError, CorruptDataError):
            if self.strict:
                raise
            return ManifestEntries.concat([self._read(file) for file in group])

    def _about_wanted(self, group: Sequence[ManifestFile]) -> list[ManifestEntries]:
        """Return the entries of each manifest that are about candidates; the others are freed."""
        try:
            parts = self.target.manifests.read_each(group)
        except (NotFoundError, CorruptDataError):
            if self.strict:
                raise
            parts = [self._read(file) for file in group]
        entries = (part.select(within(part.name_hash, self._sought)) for part in parts)
        return [part.own_copy() if len(part) else part.empty() for part in entries]

    def _want(self, hashes: Hashes) -> None:
        hashes = name_set([hashes])
        if not np.array_equal(hashes, self._sought):
            self._sought, self._about = hashes, {}

    @property
    def _streams_data(self) -> bool:
        """Return whether changelogs that outlive snapshots are the data files themselves."""
        return TableOptions.from_schema(self.target.schema).changelog_producer is ChangelogProducer.NONE

    def _needed_entries(self, root: Root) -> Iterator[ManifestEntries]:
        snapshot = root.snapshot
        if root.kind is not RootKind.CHANGELOG:
            state = [*self._list(snapshot.base_manifest_list), *self._list(snapshot.delta_manifest_list)]
            yield live_entries(self._concat(state), where=root.path)
        if root.kind is not RootKind.TAG and snapshot.changelog_manifest_list is not None:
            changelog = self._concat(self._list(snapshot.changelog_manifest_list))
            yield changelog.select(changelog.kind == EntryKind.ADD)
        if (
            root.kind is RootKind.CHANGELOG
            and snapshot.changelog_manifest_list is None
            and self._streams_data
        ):
            yield _written_entries(self._concat(self._list(snapshot.delta_manifest_list)))

    def _concat(self, manifests: Iterable[str]) -> ManifestEntries:
        parts = [self._about[name] for name in manifests]
        return ManifestEntries.concat([part for part in parts if len(part)])

    def _load_entries(self, roots: Sequence[Root]) -> None:
        """Load the entries about candidates of every manifest that the roots name and that was not read
        yet.
        """
        names = dict.fromkeys(n for root in roots for name in _all_lists(root) for n in self._list(name))
        missing = [name for name in names if name not in self._about]
        parts = self._groups(missing, self._about_wanted)
        self._about.update(zip(missing, chain.from_iterable(parts), strict=True))

    def _load_lists(self, roots: Sequence[Root]) -> None:
        optional = self._optional(roots)
        for name in self._fetch(name for root in roots for name in _all_lists(root)):
            if self.strict and name not in optional:
                del self._lists[name]
                path = self.target.paths.manifest(name)
                raise NotFoundError(
                    f"{path} is missing, so it is not known which files its snapshot needs; run fsck"
                )

    def _fetch(self, lists: Iterable[str]) -> list[str]:
        """Read those lists that were not read yet; the names of missing ones, which count as empty."""
        names = [name for name in dict.fromkeys(lists) if name not in self._lists]
        missing = []
        for name, files in zip(names, in_threads(self._read_list, names), strict=True):
            if files is None:
                missing.append(name)
            self._manifests.update({file.file_name: file for file in files or ()})
            self._lists[name] = tuple(file.file_name for file in files or ())
        return missing

    def _optional(self, roots: Sequence[Root]) -> frozenset[str]:
        """Return the lists of changelogs that were deleted with their snapshot (rule of the format), and of
        those of the first snapshot of each branch: one that was made from a tag has lost its changelog.
        """
        whole = [root for root in roots if not root.begins_branch]
        needed = {n for root in whole for n in _all_lists(root) if root.kind is not RootKind.CHANGELOG}
        needed |= {n for root in roots if root.begins_branch for n in root.snapshot.state}
        needed |= {
            root.snapshot.changelog_manifest_list or "" for root in whole if root.kind is not RootKind.TAG
        }
        return frozenset(n for root in roots for n in _all_lists(root)) - needed

    def _list(self, name: str) -> tuple[str, ...]:
        if name not in self._lists:
            self._fetch([name])
        return self._lists[name]

    def _read_list(self, name: str) -> tuple[ManifestFile, ...] | None:
        try:
            return self.target.manifests.read_list(name)
        except NotFoundError:
            return None
        except CorruptDataError:
            if self.strict:
                raise
            return None

    def _read(self, file: ManifestFile) -> ManifestEntries:
        try:
            return self.target.manifests.read([file])
        except (NotFoundError, CorruptDataError):
            if self.strict:
                raise
            return ManifestEntries.empty()

    def _lists_of(self, root: Root) -> Iterator[tuple[str, int]]:
        snapshot, paths = root.snapshot, self.target.paths
        lists = [(snapshot.base_manifest_list, snapshot.base_manifest_list_size)]
        lists += [(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)]
        if root.kind is RootKind.CHANGELOG and (snapshot.changelog_manifest_list or not self._streams_data):
            lists = []
        if root.kind is not RootKind.TAG and snapshot.changelog_manifest_list is not None:
            lists += [(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)]
        for name, size in lists:
            yield paths.manifest(name), size or 0
            for manifest in self._list(name):
                yield paths.manifest(manifest), self._manifests[manifest].file_size

    def _side_files(self, root: Root) -> Iterator[tuple[str, int]]:
        snapshot, paths = root.snapshot, self.target.paths
        if root.kind is RootKind.CHANGELOG:
            return
        if snapshot.statistics is not None:
            yield paths.statistics(snapshot.statistics), 0
        if snapshot.index_manifest is not None:
            yield paths.manifest(snapshot.index_manifest), 0
            for file in self._index_files(snapshot):
                for place in self._index_places(file):
                    yield place, file.file_size

    def index_places(self, snapshot: Snapshot) -> Iterator[tuple[str, ...]]:
        """Return the paths that each index file of a snapshot may have. Raises NotFoundError and
        CorruptDataError with `strict`.
        """
        return (tuple(self._index_places(file)) for file in self._index_files(snapshot))

    def _index_files(self, snapshot: Snapshot) -> tuple[IndexFile, ...]:
        name = snapshot.index_manifest
        if name is None:
            return ()
        if name not in self._index:
            path = self.target.paths.manifest(name)
            try:
                self._index[name] = decode_index_manifest(self.target.file_io.read(path), path)
            except (NotFoundError, CorruptDataError):
                if self.strict:
                    raise
                self._index[name] = ()
        return self._index[name]

    def _index_places(self, file: IndexFile) -> Iterator[str]:
        """Yield the paths that an index file may have: the option index-file-in-data-file-dir can have
        changed.
        """
        if file.external_path is not None:
            yield plain_path(file.external_path)
            return
        yield self.target.paths.index_file(file.file_name)
        if INDEX_BESIDE_DATA.read(self.target.schema.options):
            directory = bucket_directory(self.target.paths, self.target.schema)
            yield f"{directory(file.partition, file.bucket)}/{file.file_name}"


def grouped(files: Iterable[ManifestFile]) -> Iterator[list[ManifestFile]]:
    """Yield the files in order, in groups of at most 8 MB and 50,000 entries, or one manifest."""
    group: list[ManifestFile] = []
    size = entries = 0
    for file in files:
        if group and (size + file.file_size > _GROUP_BYTES or entries + file.entry_count > _GROUP_ENTRIES):
            yield group
            group, size, entries = [], 0, 0
        group.append(file)
        size, entries = size + file.file_size, entries + file.entry_count
    if group:
        yield group


def _mentioned_files(entries: ManifestEntries) -> NamedFiles:
    special = np.flatnonzero(entries.extra_hash != 0)
    extras = frozenset(name for file in entries.files(special) for name in file.extra_files)
    deleted = entries.name_hash[entries.kind == EntryKind.DELETE]
    return NamedFiles(name_set([entries.name_hash]), name_set([deleted]), extras)


def _all_lists(root: Root) -> tuple[str, ...]:
    lists = root.snapshot.state
    extra = root.snapshot.changelog_manifest_list
    return lists if extra is None or root.kind is RootKind.TAG else (*lists, extra)


def _written_entries(entries: ManifestEntries) -> ManifestEntries:
    """Return the entries of files that writers made; if that is not recorded, all entries."""
    sources = [file.file_source for file in entries.files()]
    return entries.select(np.array([source is not FileSource.COMPACT for source in sources], np.bool_))
