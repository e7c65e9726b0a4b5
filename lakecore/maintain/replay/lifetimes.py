"""This module reads the history of a table. It finds from which snapshot to which each file is needed, and
what else holds it.

Cost: every manifest list, the manifests of the first snapshot, and the delta and changelog manifests of the
later ones are read once. Tags, other branches, changelogs and runs in the quarantine cost a read of all
their manifests. An entry takes some 3 us. Memory: some 200 bytes a file, and some 1 kB for each file of a
holder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.maintain.auto_tags.apply import automatic_tags
from lakecore.maintain.deletion.candidates import Candidates
from lakecore.maintain.deletion.hashed_names import Hashes, name_set, within
from lakecore.maintain.deletion.quarantined import QuarantinedRoots
from lakecore.maintain.deletion.reachable import Reach
from lakecore.maintain.deletion.roots import Root, RootKind, read_roots
from lakecore.maintain.expire_snapshots.plan import AgedSnapshot
from lakecore.maintain.replay.plan import ExpiryHistory, FileRows, Holder
from lakecore.maintain.tags.apply import aged_tags
from lakecore.maintain.tags.plan import AgedTag
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.byte_words import hash_bytes
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import live_entries

__all__ = ["HistoryRules", "read_history"]

Ints = npt.NDArray[Any]

_OPEN = -2
"""The last snapshot of a file that is live, while deltas are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRules:
    """These say how the table is read. `offset_ms` is that of the wall clock of its tags to UTC."""

    offset_ms: int = 0
    consumers_hold: bool = True
    changelogs_stay: bool = False
    """It tells whether snapshots that expire remain as changelogs."""


def read_history(target: Target, rules: HistoryRules, quarantined: QuarantinedRoots) -> ExpiryHistory:
    """Read the history of one branch. Raises UnavailableError, NotFoundError, CorruptDataError when
    something that a snapshot, tag or changelog needs cannot be read.
    """
    roots = read_roots(target.file_io, target.paths)
    chain = roots.of(RootKind.SNAPSHOT, target.paths.branch)
    paths = {root.path for root in chain}
    others = [root for root in roots.roots if root.path not in paths]
    files = _Files(target)
    files.read(chain)
    reach = _HolderFiles(target, files, quarantined)
    old = [one for one in others if one.kind is RootKind.CHANGELOG and one.branch == target.paths.branch]
    groups = _groups((one for one in others if one not in old), target.paths.branch)
    reach.look(others, chain if rules.changelogs_stay else ())
    ages = {tag.name: tag for tag in aged_tags(target, rules.offset_ms)}
    ids = {root.snapshot.id: root.snapshot.time_millis for root in chain}
    automatic = {f"tag {name}" for name in automatic_tags(target)}
    holders = [
        replace(_holder(name, members, reach, ages, ids), automatic=name in automatic)
        for name, members in groups.items()
    ]
    if quarantined.roots:
        holders.append(Holder(name="the quarantine", files=reach.quarantined()))
    stay = chain if rules.changelogs_stay else ()
    changelogs = {root.snapshot.id: reach.files_of([_as_changelog(root)]) for root in stay}
    consumers = {one.id: one.next_snapshot for one in target.consumers.list()}
    return ExpiryHistory(
        snapshots=tuple(map(_age_of, chain)),
        files=files.rows(),
        holders=tuple(holders),
        consumers=consumers if rules.consumers_hold else {},
        changelogs=changelogs,
        old_changelogs={_age_of(root): reach.files_of([root]) for root in old},
        changelog_consumers=consumers,
    )


def _groups(roots: Iterable[Root], branch: str) -> dict[str, list[Root]]:
    """Return the roots of each holder: a tag of the branch, or another branch."""
    groups: dict[str, list[Root]] = {}
    for root in roots:
        groups.setdefault(str(root) if root.branch == branch else f"branch {root.branch}", []).append(root)
    return groups


def _age_of(root: Root) -> AgedSnapshot:
    return AgedSnapshot(root.snapshot.id, root.snapshot.time_millis)


def _holder(
    name: str,
    roots: Sequence[Root],
    reach: _HolderFiles,
    ages: Mapping[str, AgedTag],
    times: Mapping[int, int],
) -> Holder:
    """Return a holder. `times` has when the snapshots of the history were committed, by id."""
    holder = Holder(name=name, files=reach.files_of(roots))
    age = ages.get(roots[0].name) if name == f"tag {roots[0].name}" else None
    if age is None:
        return holder
    snapshot = roots[0].snapshot.id
    created = times.get(snapshot) if age.created_ms is None else age.created_ms
    return replace(
        holder,
        snapshot=snapshot,
        from_ms=created if snapshot in times else None,
        created_ms=age.created_ms,
        retained_ms=age.retained_ms,
    )


def _as_changelog(root: Root) -> Root:
    return replace(root, kind=RootKind.CHANGELOG)


class _Files:
    """The files, with the first and the last snapshot that needs each, by the hash of the name."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._places: dict[int, int] = {}
        self._sizes: list[int] = []
        self._first: list[int] = []
        self._last: list[int] = []

    def read(self, chain: Sequence[Root]) -> None:
        """Read the files of the snapshots."""
        live: set[int] = set()
        for number, root in enumerate(chain):
            before = chain[number - 1] if number else None
            added, removed = self._change(root, before, live)
            for place in removed:
                self._last[place] = number - 1
            live -= removed
            live |= {self._begin(name, size, number) for name, size in added.items()}
            for name, size in _names(self._changelog(root)).items():
                self._extend_to(name, size, number)
        for place in live:
            self._last[place] = len(chain) - 1
        self._read_metadata(chain)

    def add(self, names: Iterable[int], sizes: Iterable[int]) -> None:
        """Add files that only holders have; known ones stay as they are."""
        for name, size in zip(names, sizes, strict=True):
            if name not in self._places:
                self._append(name, size, -1, -1)

    def places_of(self, names: Hashes) -> Ints:
        """Return the places of those of these names that are known."""
        places = (self._places.get(name) for name in names.tolist())
        return np.array([place for place in places if place is not None], np.int64)

    def names(self) -> Hashes:
        return np.fromiter(self._places, np.uint64, len(self._places))

    def rows(self) -> FileRows:
        return FileRows(
            names=self.names(),
            sizes=np.array(self._sizes, np.int64),
            first=np.array(self._first, np.int64),
            last=np.array(self._last, np.int64),
        )

    def _change(self, root: Root, before: Root | None, live: set[int]) -> tuple[dict[int, int], set[int]]:
        """Return which names with which sizes a snapshot adds, and the places that it removes. Where a
        snapshot is missing before it, all of its files are read.
        """
        manifests, snapshot = self._target.manifests, root.snapshot
        if before is None or before.snapshot.id + 1 != snapshot.id:
            entries = manifests.read(manifests.data_manifests(snapshot))
            added = _names(live_entries(entries, where=root.path))
            places = {self._places[name] for name in added if name in self._places}
            return added, live - places
        entries = manifests.read(manifests.read_list(snapshot.delta_manifest_list))
        added = _names(entries.select(entries.kind == EntryKind.ADD))
        ended = _names(entries.select(entries.kind == EntryKind.DELETE)).keys() - added.keys()
        return added, {self._places[name] for name in ended if name in self._places}

    def _changelog(self, root: Root) -> ManifestEntries:
        """Return the changelog of a snapshot. The first of a branch may have lost it with its tag."""
        manifests, name = self._target.manifests, root.snapshot.changelog_manifest_list
        if name is None:
            return ManifestEntries.empty()
        try:
            entries = manifests.read(manifests.read_list(name))
        except NotFoundError:
            if root.begins_branch:
                return ManifestEntries.empty()
            raise
        return entries.select(entries.kind == EntryKind.ADD)

    def _read_metadata(self, chain: Sequence[Root]) -> None:
        reach = Reach(self._target)
        reach.metadata(chain)  # it reads all lists at once
        for number, root in enumerate(chain):
            for path, size in reach.metadata([root]).items():
                self._extend_to(_hash_of(path), size, number)

    def _begin(self, name: int, size: int, number: int) -> int:
        place = self._places.get(name)
        if place is None:
            return self._append(name, size, number, _OPEN)
        self._last[place] = _OPEN
        return place

    def _extend_to(self, name: int, size: int, number: int) -> None:
        place = self._places.get(name)
        if place is None:
            self._append(name, size, number, number)
        else:
            self._last[place] = max(self._last[place], number)

    def _append(self, name: int, size: int, first: int, last: int) -> int:
        place = self._places[name] = len(self._sizes)
        self._sizes.append(size)
        self._first.append(first)
        self._last.append(last)
        return place


class _HolderFiles:
    """It finds the files that holders have."""

    def __init__(self, target: Target, files: _Files, quarantined: QuarantinedRoots) -> None:
        self._files = files
        self._reach = Reach(target)
        self._aside, self._aside_roots = quarantined.reach(target), quarantined.roots
        self._sought: Hashes = np.zeros(0, np.uint64)

    def look(self, holders: Sequence[Root], changelogs: Sequence[Root]) -> None:
        """Add the files of all holders to the known ones."""
        parts = [(self._reach, root) for root in holders] + [(self._aside, one) for one in self._aside_roots]
        candidates = [reach.candidates(_lists_of(root), EntryKind.ADD) for reach, root in parts]
        self._sought = name_set([self._files.names(), *(one.hashes() for one in candidates)])
        every = Candidates.joined(candidates)
        for reach, roots in ((self._reach, [*holders]), (self._aside, [*self._aside_roots])):
            if roots:
                needed = reach.data(roots, self._sought)
                for names, sizes in every.sizes():
                    used = within(names, needed.names)
                    self._files.add(names[used].tolist(), sizes[used].tolist())
                self._files.add([_hash_of(name) for name in needed.extras], [0] * len(needed.extras))
                metadata = reach.metadata(roots)
                self._files.add(map(_hash_of, metadata), metadata.values())
        if changelogs:
            self._reach.data([_as_changelog(root) for root in changelogs], self._sought)

    def files_of(self, roots: Sequence[Root]) -> Ints:
        """Return the places of the files that these roots need."""
        return self._places(self._reach, roots)

    def quarantined(self) -> Ints:
        """Return the places of the files that runs in the quarantine need."""
        return self._places(self._aside, self._aside_roots)

    def _places(self, reach: Reach, roots: Sequence[Root]) -> Ints:
        needed = reach.data(roots, self._sought)
        others = [_hash_of(name) for name in (*needed.extras, *reach.metadata(roots))]
        return self._files.places_of(name_set([needed.names, np.array(others, np.uint64)]))


def _lists_of(root: Root) -> Iterator[str]:
    snapshot = root.snapshot
    if root.kind is not RootKind.CHANGELOG or snapshot.changelog_manifest_list is None:
        yield snapshot.base_manifest_list
        yield snapshot.delta_manifest_list
    if root.kind is not RootKind.TAG and snapshot.changelog_manifest_list is not None:
        yield snapshot.changelog_manifest_list


def _names(entries: ManifestEntries) -> dict[int, int]:
    """Return the sizes of the files and extra files by the hash of the name."""
    sizes = dict(zip(entries.name_hash.tolist(), entries.file_size.tolist(), strict=True))
    special = np.flatnonzero(entries.extra_hash != 0)
    extras = (name for file in entries.files(special) for name in file.extra_files) if len(special) else ()
    return sizes | {_hash_of(name): 0 for name in extras}


def _hash_of(name: str) -> int:
    return int(hash_bytes([name.encode()])[0])
