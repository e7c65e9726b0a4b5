"""This module decides which snapshots, tags and changelogs can be read, judged by their own files, lists,
manifests and sizes.
"""

from __future__ import annotations

from dataclasses import field

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.index_file import DELETION_VECTORS
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.indexes import IndexStore

__all__ = ["BrokenRoots", "broken_roots", "lost_changelog", "newest_readable"]

_MANIFEST = "manifest file"
_MISSING, _DAMAGED = "does not exist", "has another size than recorded"


@dataclass(frozen=True, slots=True)
class BrokenRoots:
    """It has what cannot be read of a branch, path to reason. `whole` are the ids of snapshots that can be
    read; `latest` is the highest id, broken or not.
    """

    snapshots: dict[int, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    whole: tuple[int, ...] = ()
    latest: int | None = None

    @property
    def beyond(self) -> str:
        """Return why the latest snapshot cannot be repaired, or an empty text where it can: lost manifests
        can be left out.
        """
        why = "" if self.latest is None else self.snapshots.get(self.latest, "")
        return "" if why.startswith(_MANIFEST) else why


def broken_roots(target: Target) -> BrokenRoots:
    """Return the snapshots, tags and changelogs whose file, lists or manifests are gone or damaged.

    Manifests count by name and size. The latest snapshot needs no changelog to be read, but its deletion
    vectors. Cost: a small read a root and list, one listing of manifests, a look at each that is not listed.
    Raises UnavailableError.
    """
    look = _Look(target)
    paths, ids = target.paths, target.snapshots.list_ids()
    snapshots = {number: look.state(paths.snapshot(number), changelog=number != ids[-1]) for number in ids}
    if ids and not snapshots[ids[-1]]:
        snapshots[ids[-1]] = look.vectors(paths.snapshot(ids[-1]))
    others = {paths.tag(name): look.state(paths.tag(name)) for name in target.tags.list()}
    for number in target.changelogs.list_ids():
        path = paths.changelog(number)
        others[path] = look.changelog(path)
    return BrokenRoots(
        {number: why for number, why in snapshots.items() if why},
        {path: why for path, why in others.items() if why},
        tuple(number for number, why in snapshots.items() if not why),
        max(ids, default=None),
    )


def lost_changelog(target: Target) -> str:
    """Return why the changelog of the latest snapshot cannot be read, or an empty text where it can."""
    latest = target.snapshots.latest_id()
    return "" if latest is None else _Look(target).changelog(target.paths.snapshot(latest))


def newest_readable(target: Target, broken: BrokenRoots) -> int | None:
    """Return the newest snapshot that can be read with its deletion vectors; if there is none, the newest
    that lacks manifests only: these can be left out.
    """
    look = _Look(target)
    whole = list(reversed(broken.whole))
    mendable = [number for number, why in broken.snapshots.items() if why.startswith(_MANIFEST)]
    candidates = (number for number in (*whole, *sorted(mendable, reverse=True)) if number != broken.latest)
    return next((number for number in candidates if not look.vectors(target.paths.snapshot(number))), None)


@dataclass(slots=True)
class _Look:
    """Texts are empty where nothing is wrong, or where a root was removed meanwhile."""

    target: Target
    lists: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] | None = None

    def state(self, path: str, *, changelog: bool = False) -> str:
        """Return what prevents reading a snapshot or tag, or an empty text."""
        try:
            snapshot = Snapshot.from_json(self.target.file_io.read(path), path)
        except CorruptDataError as err:
            return err.problem
        except NotFoundError:
            return ""
        if snapshot.index_manifest is not None and self._size(snapshot.index_manifest) is None:
            return f"index manifest {snapshot.index_manifest} {_MISSING}"
        names = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
        if changelog and snapshot.changelog_manifest_list is not None:
            names.append(snapshot.changelog_manifest_list)
        problems = [why for name in names if (why := self._list(name))]
        worse = (why for why in problems if not why.startswith(_MANIFEST))
        return next(worse, problems[0] if problems else "")

    def changelog(self, path: str) -> str:
        """Return what prevents reading the changelog at `path`. Its other lists may have been deleted with
        the snapshot (rule of the format).
        """
        try:
            name = Snapshot.from_json(self.target.file_io.read(path), path).changelog_manifest_list
        except CorruptDataError as err:
            return err.problem
        except NotFoundError:
            return ""
        return "" if name is None else self._list(name)

    def vectors(self, path: str) -> str:
        """Return what prevents reading deletion vectors: if they are gone, deleted rows would come back."""
        try:
            snapshot = Snapshot.from_json(self.target.file_io.read(path), path)
            files = self.target.manifests.read_index(snapshot.index_manifest)
        except CorruptDataError as err:
            return err.problem
        except NotFoundError:
            return ""
        store = IndexStore(self.target.file_io, self.target.paths, self.target.schema)
        for file in files:
            if file.index_type == DELETION_VECTORS:
                status = self.target.file_io.stat(store.path(file))
                if status is None or status.size != file.file_size:
                    return f"index file {file.file_name} {_MISSING if status is None else _DAMAGED}"
        return ""

    def _list(self, name: str) -> str:
        if name not in self.lists:
            self.lists[name] = self._list_problem(name)
        return self.lists[name]

    def _list_problem(self, name: str) -> str:
        try:
            files = self.target.manifests.read_list(name)
        except NotFoundError:
            return f"manifest list {name} {_MISSING}"
        except CorruptDataError as err:
            return f"manifest list {name} is damaged: {err.problem}"
        for file in files:
            size = self._size(file.file_name)
            if size != file.file_size:
                return f"{_MANIFEST} {file.file_name} {_MISSING if size is None else _DAMAGED}"
        return ""

    def _size(self, name: str) -> int | None:
        """Return the size of a file in `manifest/`, or None for one that neither a listing nor a look-up
        finds.
        """
        if self.sizes is None:
            listed = self.target.file_io.list(self.target.paths.manifest_dir)
            self.sizes = {status.name: status.size for status in listed}
        if name not in self.sizes:
            entry = self.target.file_io.stat(self.target.paths.manifest(name))
            return None if entry is None else entry.size
        return self.sizes[name]
