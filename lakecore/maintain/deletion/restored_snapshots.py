"""This module decides whether the roots that a run removed may be restored, after what came since."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, CorruptDataError, NotFoundError
from lakecore.fs.file_io import FileIO
from lakecore.maintain.deletion.runs import RunRecord
from lakecore.maintain.target import Target, in_threads
from lakecore.metadata.json_record import whole_number
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.paths import MAIN_BRANCH, TablePaths

__all__ = [
    "RootStates",
    "check_branches",
    "check_latest_is_known",
    "check_same_table",
    "creation_of",
    "latest_after",
    "roots_to_remove",
    "table_created",
]

_AFTER = "latest_after"
_CREATED = "table_created"
_REPAIR_OF_BRANCH = "repair-branch"
"""The job of a repair that sets aside a branch that has no schema."""


def latest_after(snapshot: Snapshot) -> dict[str, Any]:
    """Return the entry of the ledger's parameters that says which snapshot a run leaves as the latest."""
    return {_AFTER: _identity(snapshot)}


def table_created(target: Target) -> dict[str, Any]:
    """Return the entry of the ledger's parameters by which an undo knows the table of the run, also where
    another one was created in its place.
    """
    created = creation_of(target)
    return {} if created is None else {_CREATED: created}


def creation_of(target: Target, record: RunRecord | None = None) -> list[int] | None:
    """Return id and time of the first schema of the table, or those that a record has. None: there is no
    table, or its first schema cannot be read. It costs a listing and a read.
    """
    if record is not None and _CREATED in record.parameters:
        created: list[int] = record.parameters[_CREATED]
        return created
    schemas = target.at_branch(MAIN_BRANCH).schemas
    try:
        ids = schemas.list_ids()
        return [ids[0], schemas.load(ids[0]).time_millis] if ids else None
    except (CorruptDataError, NotFoundError):
        return None


def check_same_table(target: Target, record: RunRecord, created: list[int] | None) -> None:
    """Raise NotFoundError if the table is not the one that was `created` so: what is restored would belong to
    no table, or would be snapshots of a table whose files are gone.
    """
    if created is not None and creation_of(target) != created:
        raise NotFoundError(
            f"{target.name}: the table of run {record.id} was renamed, or dropped and perhaps created again, "
            "since the run; its files do not belong to what has the name now, so no snapshot or tag was "
            "restored; they stay in the quarantine until it is purged"
        )


def check_branches(target: Target, record: RunRecord, absent: Collection[str]) -> None:
    """Raise NotFoundError if a root is of a branch that was deleted since: without a schema the branch could
    not be read, and it would not be known which files it needs. The deletion of a branch has its schemas; the
    repair that sets a branch aside has none, because the branch had none before.
    """
    if record.job == _REPAIR_OF_BRANCH:
        return
    for name in sorted({target.paths.branch_of(path) for path in absent} - {MAIN_BRANCH}):
        own = target.at_branch(name)
        if own.schemas.list_ids() or any(path.startswith(f"{own.paths.schema_dir}/") for path in absent):
            continue
        raise NotFoundError(
            f"{target.name}: run {record.id} removed files of branch {name}, which was deleted or renamed "
            "since; undo that first (`lakecore runs` lists it), and then this run"
        )


def check_latest_is_known(
    target: Target, record: RunRecord, absent: Collection[str], restored: Collection[str]
) -> None:
    """Raise AlreadyExistsError if a snapshot of the run would become the latest of its branch in place of one
    that the run did not leave: a commit or a rollback since would be taken back without a word.

    `absent` are the paths of the run's roots that are in the quarantine, `restored` those of its other roots:
    an undo that was interrupted has restored some.
    """
    for branch in (MAIN_BRANCH, *target.branches.list()):
        own = target.at_branch(branch)
        latest = own.snapshots.latest()
        if latest is None:
            continue
        above = [path for path in absent if (_number(own.paths, path) or 0) > latest.id]
        if not above or own.paths.snapshot(latest.id) in restored:
            continue
        if not _is_as_left(latest, record):
            raise AlreadyExistsError(
                f"{own.name}: snapshot {latest.id} of branch {branch} is the latest, but the run {record.id} "
                "left another one: there was a commit or a rollback since. With "
                f"{above[0].rpartition('/')[2]} as the latest, it would be taken back, and rows be lost. To "
                "keep the present rows, create a tag, and a branch from it; then go back to the snapshot "
                "that the run had left (undo of the later runs, or rollback-to), and undo again"
            )


def _number(paths: TablePaths, path: str) -> int | None:
    directory, number = _directory_and_number(path)
    return number if directory == paths.snapshot_dir and number >= 0 else None


def _is_as_left(latest: Snapshot, record: RunRecord) -> bool:
    """Records of earlier releases do not have the snapshot; there its time must do."""
    recorded = record.parameters.get(_AFTER)
    if recorded is None:
        return latest.time_millis <= record.started_ms
    return bool(recorded == _identity(latest))


def _identity(snapshot: Snapshot) -> list[Any]:
    return [snapshot.id, *snapshot.state]


@dataclass(frozen=True, slots=True)
class RootStates:
    """These are the snapshots and tags of a table at one moment: their files by path, None for one that was
    removed meanwhile. `latest` are the paths of the latest snapshots of its branches.

    Cost: two listings a branch and a read a root, in threads.
    """

    files: Mapping[str, bytes | None]
    latest: frozenset[str]

    @classmethod
    def of(cls, target: Target) -> RootStates:
        """Read them. Raises UnavailableError."""
        paths: list[str] = []
        latest: list[str] = []
        for branch in (MAIN_BRANCH, *target.branches.list()):
            own = target.at_branch(branch)
            snapshots = [own.paths.snapshot(number) for number in own.snapshots.list_ids()]
            latest += snapshots[-1:]
            paths += [*snapshots, *(own.paths.tag(name) for name in own.tags.list())]
        files = in_threads(partial(_content, target.file_io), paths)
        return cls(dict(zip(paths, files, strict=True)), frozenset(latest))

    def changed(self, target: Target, restored: Collection[str]) -> list[str]:
        """Return the roots that are others now, and those that were removed: tags, latest snapshots,
        snapshots above one that was `restored`, and restored ones above one that exists. Others may have
        expired. Raises UnavailableError.
        """
        paths = [*self.files, *(path for path in restored if path not in self.files)]
        now = dict(zip(paths, in_threads(partial(_content, target.file_io), paths), strict=True))
        lowest, lowest_present = _lowest(restored), _lowest(path for path in paths if now[path] is not None)
        out = []
        for path in paths:
            directory, number = _directory_and_number(path)
            limits = lowest if path in self.files else lowest_present
            needed = path in self.latest or number < 0 or number > limits.get(directory, number)
            replaced = path in self.files and now[path] is not None and now[path] != self.files[path]
            if replaced or (now[path] is None and needed):
                out.append(path)
        return out


def _lowest(paths: Iterable[str]) -> dict[str, int]:
    """Return the lowest number of a snapshot in each directory."""
    out: dict[str, int] = {}
    for path in paths:
        directory, number = _directory_and_number(path)
        out[directory] = min(number, out.get(directory, number))
    return out


def roots_to_remove(target: Target, content: Mapping[str, bytes]) -> list[str]:
    """Return those of the restored roots, given with their content, that should go back to the quarantine:
    all that nobody has replaced, without the snapshots of a branch that was rolled back to one of them, up to
    that one. Such a branch has no others.
    """
    unchanged = [path for path, before in content.items() if _content(target.file_io, path) == before]
    staying: set[str] = set()
    for branch in (MAIN_BRANCH, *target.branches.list()):
        own = target.at_branch(branch)
        paths = {own.paths.snapshot(number): number for number in own.snapshots.list_ids()}
        goal = whole_number(_content(target.file_io, own.paths.latest_hint) or b"")
        if goal is not None and paths.keys() <= set(unchanged) and own.paths.snapshot(goal) in paths:
            staying.update(path for path, number in paths.items() if number <= goal)
    return [path for path in unchanged if path not in staying]


def _content(file_io: FileIO, path: str) -> bytes | None:
    try:
        return file_io.read(path)
    except NotFoundError:
        return None


def _directory_and_number(path: str) -> tuple[str, int]:
    """Return the directory of a root, and the number of a snapshot; -1 for another root."""
    directory, _, name = path.rpartition("/")
    number = whole_number(name.removeprefix("snapshot-")) if name.startswith("snapshot-") else None
    return directory, -1 if number is None else number
