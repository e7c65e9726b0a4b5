"""This module changes the files of branches. Data files belong to the table: they are neither copied nor
removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lakecore.errors import AlreadyExistsError, CommitConflictError, InvalidInputError, NotFoundError
from lakecore.fs.publish import publish_resolved
from lakecore.fs.temporary import is_temporary
from lakecore.fs.walk import files_below
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.deletion.restored_schemas import replaced_schemas
from lakecore.maintain.deletion.restored_snapshots import latest_after
from lakecore.maintain.deletion.roots import Root, RootKind, RootSet, read_roots
from lakecore.maintain.deletion.runs import Removal, RunRecord, RunState
from lakecore.maintain.deletion.sweep import RootSteps, Sweeper, SweepResult
from lakecore.maintain.hints import repair_hints
from lakecore.maintain.tagged_snapshot import snapshot_of_tag
from lakecore.maintain.target import Target
from lakecore.metadata.json_record import json_object, whole_number
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.paths import MAIN_BRANCH, TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.snapshots import SnapshotStore

__all__ = [
    "FastForward",
    "branch_removal",
    "check_name",
    "create",
    "delete",
    "fast_forward",
    "is_incomplete",
    "remove_empty",
    "rename",
]

_CREATE, _RENAME = "create-branch", "rename-branch"


def check_name(name: str) -> None:
    """Raise InvalidInputError if a branch cannot have the name. Rule of the format: it is not `main`, not
    blank, not a number.
    """
    if name == MAIN_BRANCH or not name.strip() or name.isdigit():
        raise InvalidInputError(f"branch {name!r}: a branch name must not be main, blank or all digits")


def create(sweeper: Sweeper, name: str, tag: str | None, *, begun: bool) -> bool:
    """Create a branch from a tag, or an empty one with the present schemas. Return False if it exists and is
    the same.

    A creation that `is_incomplete`, which `begun` says, is completed. Raises AlreadyExistsError for another
    branch of that name.
    """
    check_name(name)
    target = sweeper.target
    branch = target.paths.with_branch(name)
    new_branch = _new_branch(target, branch, tag)
    present = _contents(target, branch)
    missing = {path: data for path, data in new_branch.items() if path not in present}
    is_other = any(new_branch.get(path) != data for path, data in present.items())
    if is_other or (missing and present and not begun):
        raise AlreadyExistsError(
            f"branch {name!r} of {target.name} exists; choose another name, or delete it"
        )
    if not missing:
        return False
    sweeper.sweep(
        _CREATE,
        Removal(),
        RootSet((), ()),
        steps=RootSteps(prepare=lambda: _publish(target, missing)),
        parameters=_create(name, tag),
    )
    if tag is not None:
        try:
            target.tags.load(tag)
        except NotFoundError as err:
            raise NotFoundError(
                f"tag {tag!r} of {target.name} was deleted while branch {name!r} was created from it; "
                "delete the branch"
            ) from err
    return True


def is_incomplete(sweeper: Sweeper, name: str, tag: str | None) -> bool:
    """Return whether the branch lacks something that its creation writes, and no run completed it.

    No branch is whole without a schema, whoever makes it. With all its schemas it could be one that was made
    without a tag, so the ledger decides. Raises AlreadyExistsError for one half made from another tag: which
    of the two is wanted cannot be known.
    """
    target = sweeper.target
    branch = target.paths.with_branch(name)
    if name not in target.branches.list():
        return False
    if not SchemaStore(target.file_io, branch).list_ids():
        return True
    last = next((r for r in reversed(_runs(sweeper, _CREATE)) if r.parameters.get("branch") == name), None)
    if last is None or not _ended_early(last) or SnapshotStore(target.file_io, branch).list_ids():
        return False
    if dict(last.parameters) != _create(name, tag):
        raise AlreadyExistsError(
            f"branch {name!r} of {target.name} was only partly created from tag "
            f"{last.parameters.get('tag')!r}; complete it with create-branch from that tag, or "
            "delete it"
        )
    new_branch, present = _new_branch(target, branch, tag), _contents(target, branch)
    return len(present) < len(new_branch) and present.items() <= new_branch.items()


def _create(name: str, tag: str | None) -> dict[str, object]:
    return {"branch": name, "tag": tag}


def _publish(target: Target, files: dict[str, bytes]) -> None:
    """Write the files in this order."""
    for path, data in files.items():
        publish_resolved(target.file_io, path, data, target.clock)


def _new_branch(target: Target, branch: TablePaths, tag: str | None) -> dict[str, bytes]:
    """Return path and content of each file, in the order in which they are written."""
    read = target.file_io.read
    ids = target.schemas.list_ids()
    if tag is None:
        return {branch.schema(i): read(target.paths.schema(i)) for i in ids}
    data = read(target.paths.tag(tag)) if target.tags.load(tag) else b""
    snapshot = Snapshot.from_json(data, target.paths.tag(tag))
    out = {branch.schema(i): read(target.paths.schema(i)) for i in ids if i <= snapshot.schema_id}
    out[branch.tag(tag)] = data
    out[branch.snapshot(snapshot.id)] = snapshot_of_tag(target, json_object(data))
    return out


def branch_removal(target: Target, name: str) -> tuple[Removal, RootSet]:
    """Return all files of the branch, its roots first and its schemas last, and the roots that stay."""
    check_name(name)
    branch = target.paths.with_branch(name)
    branch_files = list(files_below(target.file_io, branch.root))
    if not branch_files:
        names = ", ".join(target.branches.list()) or "none"
        raise NotFoundError(f"branch {name!r} of {target.name} does not exist; available branches: {names}")
    files = tuple(
        PlannedDeletion(path, 0, f"it belongs to branch {name}")
        for path in _removal_order(branch, branch_files)
    )
    return Removal(files), read_roots(target.file_io, target.paths, without=name)


def remove_empty(target: Target, name: str) -> bool:
    """Remove the directories that an interrupted deletion left, and return whether there were any: to others
    they are a broken branch.
    """
    check_name(name)
    root = target.paths.with_branch(name).root
    if target.file_io.stat(root) is None or any(files_below(target.file_io, root)):
        return False
    _remove_directories(target, root)
    return True


def delete(
    name: str,
    planned: tuple[Removal, RootSet],
    sweeper: Sweeper,
    *,
    quarantine: bool,
    parameters: dict[str, object],
) -> SweepResult:
    """Carry it out. Raises CommitConflictError if a writer has written to the branch meanwhile."""
    target = sweeper.target
    return sweeper.sweep(
        "delete-branch",
        planned[0],
        planned[1],
        quarantine=quarantine,
        steps=RootSteps(settle=lambda: _remove_emptied(target, name)),
        parameters=parameters,
    )


def rename(name: str, new_name: str, sweeper: Sweeper, *, parameters: dict[str, object]) -> SweepResult:
    """Rename a branch. A copy under the new name is written first, so one of the two is always complete.
    After an interruption, another call continues.

    Raises NotFoundError, AlreadyExistsError for another branch of the new name.
    """
    check_name(name)
    check_name(new_name)
    target = sweeper.target
    old, new = target.paths.with_branch(name), target.paths.with_branch(new_name)
    source = {path: target.file_io.read(path) for path in files_below(target.file_io, old.root)}
    if not source:
        _remove_directories(target, old.root)
        raise NotFoundError(f"branch {name!r} of {target.name} does not exist")
    copies = {new.root + path.removeprefix(old.root): data for path, data in source.items()}
    present = _contents(target, new)
    begun = _was_interrupted(sweeper, parameters)
    if any(copies.get(path, data if begun else None) != data for path, data in present.items()):
        raise AlreadyExistsError(f"branch {new_name!r} of {target.name} exists; choose another name")
    removal = Removal(
        tuple(
            PlannedDeletion(p, 0, f"the branch was renamed to {new_name}")
            for p in _removal_order(old, list(source))
        )
    )
    others = read_roots(target.file_io, target.paths, without=name)
    return sweeper.sweep(
        _RENAME,
        removal,
        others,
        steps=RootSteps(
            prepare=lambda: _copy(
                target, {path: copies[path] for path in copies if path not in present}, new
            ),
            settle=lambda: _remove_emptied(target, name),
        ),
        parameters=parameters,
    )


def _copy(target: Target, copies: dict[str, bytes], branch: TablePaths) -> None:
    for path in reversed(_removal_order(branch, list(copies))):
        publish_resolved(target.file_io, path, copies[path], target.clock)


def _was_interrupted(sweeper: Sweeper, parameters: dict[str, object]) -> bool:
    """Return whether the last run of this renaming, with the same parameters, was interrupted."""
    same = [r for r in _runs(sweeper, _RENAME) if dict(r.parameters) == parameters]
    return bool(same) and _ended_early(same[-1])


def _runs(sweeper: Sweeper, job: str) -> list[RunRecord]:
    """Return the runs of a job, oldest first."""
    return [record for record in sweeper.runs.list(sweeper.target.name) if record.job == job]


def _ended_early(record: RunRecord) -> bool:
    """Return whether a run was interrupted."""
    return record.state is RunState.PLANNED or bool(record.outcome.get("resumed"))


def _removal_order(branch: TablePaths, paths: list[str]) -> list[str]:
    """Return the hints, then roots from the newest, then the rest, schemas last."""
    folders = (branch.snapshot_dir, branch.tag_dir, branch.changelog_dir, branch.consumer_dir)

    def place(path: str) -> tuple[int, int, str]:
        folder, _, name = path.rpartition("/")
        if name in ("LATEST", "EARLIEST"):
            return 0, 0, name
        if folder == branch.schema_dir:
            return len(folders) + 2, 0, name
        number = name.rpartition("-")[2]
        newest = -(whole_number(number) or 0)
        return (folders.index(folder) + 1 if folder in folders else len(folders) + 1), newest, name

    return sorted(paths, key=place)


class FastForward:
    """It lets main become what a branch is: from the branch's first snapshot on, its snapshots, tags and
    schemas.
    """

    def __init__(self, target: Target, name: str) -> None:
        check_name(name)
        self._target = target
        self._branch = target.branches.open(name)
        roots = read_roots(target.file_io, target.paths)
        self._theirs = roots.of(RootKind.SNAPSHOT, name) + roots.of(RootKind.TAG, name)
        snapshots = roots.of(RootKind.SNAPSHOT, name)
        if not snapshots:
            raise InvalidInputError(
                f"branch {name!r} of {target.name} has no snapshot to which main could be fast-forwarded"
            )
        self.first = snapshots[0].snapshot.id
        self.last = snapshots[-1].snapshot.id
        self._latest = snapshots[-1].snapshot
        self._planned = {root.snapshot.id for root in roots.of(RootKind.SNAPSHOT, MAIN_BRANCH)}
        self._planned_schemas = frozenset(target.schemas.list_ids())
        self.removed_roots = tuple(root for root in self._replace(roots) if not self._same(root))
        self._remaining = roots.without(root.path for root in self.removed_roots)

    @property
    def removal(self) -> Removal:
        """Return the roots of main that the branch replaces, newest first."""
        why = f"it is replaced by branch {self._branch.branch}"
        return Removal(tuple(root.planned_deletion(why) for root in self.removed_roots))

    def apply(self, sweeper: Sweeper, *, quarantine: bool, parameters: dict[str, object]) -> SweepResult:
        """Carry it out; after an interruption, another call continues."""
        return sweeper.sweep(
            "fast-forward",
            self.removal,
            self._remaining,
            quarantine=quarantine,
            steps=RootSteps(prepare=self._prepare, settle=self._copy),
            parameters=parameters | latest_after(self._latest) | (self._schemas() if quarantine else {}),
        )

    def _schemas(self) -> dict[str, object]:
        """Return what `undo` needs to give main its schemas again."""
        before = _schema_texts(self._target, self._target.paths)
        branch = _schema_texts(self._target, self._branch)
        stay = {number: text for number, text in before.items() if number <= self._latest.schema_id}
        return replaced_schemas(before, stay | branch)

    def _replace(self, roots: RootSet) -> Iterator[Root]:
        for kind in (RootKind.SNAPSHOT, RootKind.CHANGELOG, RootKind.TAG):
            for root in reversed(roots.of(kind, MAIN_BRANCH)):
                if root.snapshot.id >= self.first:
                    yield root

    def _same(self, root: Root) -> bool:
        """Return whether main and the branch have the same root. The branch may have as a snapshot what is a
        changelog of main.
        """
        if root.kind is RootKind.CHANGELOG:
            place = self._branch.snapshot(root.snapshot.id)
        else:
            place = self._branch.root + root.path.removeprefix(self._target.paths.root)
        return any(
            other.path == place and other.snapshot.state == root.snapshot.state for other in self._theirs
        )

    def _prepare(self) -> None:
        """Raise CommitConflictError for a snapshot that was committed to main since the plan: it would remain
        the latest one, and main would not become the branch. The same goes for a new schema, which the
        branch's would replace.
        """
        self._refuse(set(self._main_snapshots()) - self._planned)
        self._refuse_schemas(self._late_schemas())
        self._target.file_io.delete(self._target.paths.latest_hint)

    def _main_snapshots(self) -> tuple[int, ...]:
        return SnapshotStore(self._target.file_io, self._target.paths).list_ids()

    def _refuse(self, late: Collection[int]) -> None:
        if late:
            raise CommitConflictError(
                f"{self._target.name}: a writer committed snapshot-{min(late)} to main "
                f"while main was fast-forwarded to branch {self._branch.branch}; stop the writers "
                "of main and run again"
            )

    def _refuse_schemas(self, late: Collection[int]) -> None:
        if late:
            raise CommitConflictError(
                f"{self._target.name}: main was altered (schema {min(late)}) while it was fast-forwarded to "
                f"branch {self._branch.branch}; run again, which takes the change back"
            )

    def _copy(self) -> None:
        """Copy schemas, then tags, then snapshots from the oldest: what can be seen is complete. Schemas of
        main stay that a commit made meanwhile needs, or on which main was altered meanwhile.
        """
        storage, main = self._target.file_io, self._target.paths
        for folder in ("schema", "tag", "snapshot"):
            source = f"{self._branch.root}/{folder}"
            statuses = [
                s for s in storage.list(source) if not s.is_dir and s.name not in ("LATEST", "EARLIEST")
            ]
            for status in sorted(statuses, key=lambda status: (len(status.name), status.name)):
                place, data = f"{main.root}/{folder}/{status.name}", storage.read(status.path)
                if folder == "snapshot":
                    self._publish(place, data)
                elif storage.stat(place) is None or storage.read(place) != data:
                    if folder == "schema":
                        self._refuse_schemas({i for i in self._late_schemas() if main.schema(i) == place})
                    storage.overwrite(place, data)
        later = [number for number in self._main_snapshots() if number > self.last]
        self._remove_schemas(later)
        repair_hints(storage, main)
        if later and later[0] > self.last + 1:  # a commit on the branch's last snapshot has the next number
            self._refuse(later)

    def _late_schemas(self) -> set[int]:
        """Return the schemas by which main was altered since the plan."""
        return set(self._target.schemas.list_ids()) - self._planned_schemas

    def _remove_schemas(self, later: Collection[int]) -> None:
        """Remove the schemas that only main had, but none up to that of a snapshot that was committed
        meanwhile.
        """
        storage, main = self._target.file_io, self._target.paths
        snapshots = SnapshotStore(storage, main)
        theirs = SnapshotStore(storage, self._branch).load(self.last).schema_id
        of_branch = SchemaStore(storage, self._branch).list_ids()
        own = set(self._target.schemas.list_ids()).difference(of_branch)
        needed = (snapshots.load(number).schema_id for number in later)
        newest = max((theirs, *needed, *(own - self._planned_schemas)))
        for schema_id in sorted(own):
            if schema_id > newest:
                storage.delete(main.schema(schema_id))

    def _publish(self, place: str, data: bytes) -> None:
        """Write a file to main. Different files of that name were removed from main, so one that is there is
        a commit made since then.

        The same snapshot may be written with other spaces, or lack fields that an earlier release of Java did
        not know when it made the tag of the branch.
        """
        storage = self._target.file_io
        if publish_resolved(storage, place, data, self._target.clock):
            return
        if Snapshot.from_json(storage.read(place), place).state != Snapshot.from_json(data, place).state:
            self._refuse([int(place.rpartition("-")[2])])


def fast_forward(target: Target, name: str) -> FastForward:
    """Return what a fast-forward would do."""
    return FastForward(target, name)


def _schema_texts(target: Target, paths: TablePaths) -> dict[int, str]:
    ids = SchemaStore(target.file_io, paths).list_ids()
    return {
        number: target.file_io.read(paths.schema(number)).decode(errors="surrogateescape") for number in ids
    }


def _contents(target: Target, branch: TablePaths) -> dict[str, bytes]:
    """Return the files of the branch, without temporary files of a killed process."""
    return {path: target.file_io.read(path) for path in _lasting_files(target, branch.root)}


def _remove_emptied(target: Target, name: str) -> None:
    """Remove the directories of a branch whose files were removed. Raises CommitConflictError if a writer has
    written to it since.
    """
    root = target.paths.with_branch(name).root
    late = next(_lasting_files(target, root), None)
    if late is not None:
        raise CommitConflictError(
            f"branch {name!r} of {target.name} was written while it was removed ({late}): stop its writers, "
            "and run delete-branch for it, which removes what they wrote"
        )
    _remove_directories(target, root)


def _lasting_files(target: Target, root: str) -> Iterator[str]:
    """Return the paths of the files of a branch, without temporary ones that killed processes left."""
    files = files_below(target.file_io, root)
    return (path for path in files if not is_temporary(path.rpartition("/")[2]))


def _remove_directories(target: Target, directory: str) -> None:
    for status in target.file_io.list(directory):
        if status.is_dir:
            _remove_directories(target, status.path)
    target.file_io.delete(directory)
