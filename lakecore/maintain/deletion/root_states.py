"""This module notices that the snapshots and tags of a table change while an undo restores others, and
decides which of those go back to the quarantine then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.fs.file_io import FileIO
from lakecore.maintain.target import Target, in_threads
from lakecore.metadata.json_record import whole_number
from lakecore.store.paths import MAIN_BRANCH

__all__ = ["RootStates", "roots_to_remove", "snapshot_place"]


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
            directory, number = snapshot_place(path)
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
        directory, number = snapshot_place(path)
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


def snapshot_place(path: str) -> tuple[str, int]:
    """Return the directory of a root, and the number of a snapshot; -1 for another root."""
    directory, _, name = path.rpartition("/")
    number = whole_number(name.removeprefix("snapshot-")) if name.startswith("snapshot-") else None
    return directory, -1 if number is None else number
