"""This module has the roots of a table: everything by name from which files can be reached, over all
branches.

Reading them is strict: what cannot be read, or looks emptier than the hints say, is an error, never "no
root".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError, UnavailableError
from lakecore.fs.file_io import FileIO
from lakecore.fs.temporary import is_temporary
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.target import in_threads
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.branches import BranchStore
from lakecore.store.changelogs import ChangelogStore
from lakecore.store.paths import MAIN_BRANCH, TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.snapshots import SnapshotStore
from lakecore.store.tags import TagStore

__all__ = ["NamedRoot", "Root", "RootKind", "RootSet", "named_roots", "read_roots", "root_reader"]

_TRIES = 5


class RootKind(Enum):
    SNAPSHOT = "snapshot"
    TAG = "tag"
    CHANGELOG = "changelog"


@dataclass(frozen=True, slots=True)
class Root:
    """A root is a file that makes others needed. `name` is the id of a snapshot or changelog, or the name
    of a tag.
    """

    kind: RootKind
    branch: str
    name: str
    path: str
    snapshot: Snapshot
    begins_branch: bool = False
    """It tells whether it is the first snapshot of its branch, which may have been made from a tag."""

    @property
    def identity(self) -> tuple[str, str, str]:
        """Return what two roots that reach the same files have in common: a replaced tag is another root."""
        return self.path, *self.snapshot.state

    def planned_deletion(self, why: str) -> PlannedDeletion:
        """Return the deletion of this file, as long as it has this snapshot."""
        return PlannedDeletion(self.path, 0, why, self.snapshot.state)

    def __str__(self) -> str:
        text = f"{self.kind.value} {self.name}"
        return text if self.branch == MAIN_BRANCH else f"{text} of branch {self.branch}"


@dataclass(frozen=True, slots=True)
class NamedRoot:
    """This root was listed, not read."""

    kind: RootKind
    name: str
    path: str
    begins_branch: bool = False


@dataclass(frozen=True, slots=True)
class RootSet:
    """These are all roots that a table has at one moment. `branches` are their names, `main` first."""

    roots: tuple[Root, ...]
    branches: tuple[str, ...]

    def identities(self) -> frozenset[tuple[str, str, str]]:
        return frozenset(root.identity for root in self.roots)

    def of(self, kind: RootKind, branch: str) -> tuple[Root, ...]:
        """Return the roots of one kind and branch; snapshots and changelogs are ordered by id."""
        matches = [root for root in self.roots if root.kind is kind and root.branch == branch]
        key = (lambda root: root.name) if kind is RootKind.TAG else (lambda root: root.snapshot.id)
        return tuple(sorted(matches, key=key))

    def without(self, paths: Iterable[str]) -> RootSet:
        """Return the roots that remain when these root files are gone."""
        removed_paths = frozenset(paths)
        return RootSet(tuple(root for root in self.roots if root.path not in removed_paths), self.branches)


def read_roots(file_io: FileIO, paths: TablePaths, *, without: str = "") -> RootSet:
    """Read every root of the table, of all branches, whichever branch `paths` is. The branch `without` is
    left out: it is removed, and need not be readable.

    A root that vanishes between the listing and its reading makes the look start over. Raises
    UnavailableError when that goes on, or when a listing disagrees with the hints; CorruptDataError for a
    root or branch that cannot be read. Cost: three listings a branch, one small read a root.
    """
    problem = ""
    for _ in range(_TRIES):
        branches = (MAIN_BRANCH, *(one for one in BranchStore(file_io, paths).list() if one != without))
        try:
            roots = tuple(root for branch in branches for root in _of_branch(file_io, paths, branch))
        except NotFoundError as err:
            problem = str(err)
            continue
        return RootSet(roots, branches)
    raise UnavailableError(
        f"{paths.table_path}: its snapshots and tags keep changing ({problem}); run again later"
    )


def _of_branch(file_io: FileIO, paths: TablePaths, branch: str) -> tuple[Root, ...]:
    return tuple(in_threads(root_reader(file_io, branch), named_roots(file_io, paths, branch)))


def named_roots(file_io: FileIO, paths: TablePaths, branch: str) -> tuple[NamedRoot, ...]:
    """Return the roots of a branch, unread. It costs three listings. Raises the errors of `read_roots`."""
    own = paths.with_branch(branch)
    if not SchemaStore(file_io, own).list_ids():
        if branch != MAIN_BRANCH and not _has_files(file_io, own.root):
            return ()  # empty directories of a branch that was deleted
        raise CorruptDataError(
            own.schema_dir,
            f"belongs to branch {branch}, which has no schema, so it is not known which files "
            "the branch needs",
        )
    snapshots = SnapshotStore(file_io, own)
    ids = snapshots.list_ids()
    if not ids and file_io.stat(own.latest_hint) is not None:
        raise UnavailableError(
            f"{own.snapshot_dir} was listed without snapshots, although the hint LATEST "
            "exists: storage may have answered wrongly; run again, and run fsck if this "
            "persists"
        )
    snapshot_roots = [NamedRoot(RootKind.SNAPSHOT, str(i), own.snapshot(i), i == ids[0]) for i in ids]
    others = [(RootKind.TAG, tag, own.tag(tag)) for tag in TagStore(file_io, own).list()]
    changelogs = ChangelogStore(file_io, own).list_ids()
    others += [(RootKind.CHANGELOG, str(i), own.changelog(i)) for i in changelogs]
    return (*snapshot_roots, *(NamedRoot(*one) for one in others))


def root_reader(file_io: FileIO, branch: str) -> Callable[[NamedRoot], Root]:
    """Return a function that reads roots of a branch. It raises NotFoundError for one that is gone,
    CorruptDataError.
    """

    def read(root: NamedRoot) -> Root:
        snapshot = Snapshot.from_json(file_io.read(root.path), root.path)
        return Root(root.kind, branch, root.name, root.path, snapshot, root.begins_branch)

    return read


def _has_files(file_io: FileIO, directory: str) -> bool:
    """Return whether a directory has files, other than temporary ones that a killed process left when it
    wrote its first file.
    """
    return any(
        _has_files(file_io, status.path) if status.is_dir else not is_temporary(status.name)
        for status in file_io.list(directory)
    )
