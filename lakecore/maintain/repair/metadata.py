"""Repairs of what points at data: hints, branches without a schema, snapshots and tags of lost files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lakecore.errors import CorruptDataError, NotFoundError, UnsupportedError
from lakecore.maintain.hints import earliest_after_gap, repair_hints, wrong_earliest, wrong_hints
from lakecore.maintain.reachable import Doomed
from lakecore.maintain.repair.bench import Action, Bench, Done, Parameters, set_aside
from lakecore.maintain.repair.plan import Work
from lakecore.maintain.runs import Removal
from lakecore.maintain.target import Target
from lakecore.metadata.snapshot import Snapshot

__all__ = ["BROKEN_ROOTS", "EARLIEST", "HINTS", "LOST_BRANCH", "ROLLBACK", "Broken", "broken_roots"]

_LISTS = ("base_manifest_list", "delta_manifest_list")
_MANIFEST = "manifest file"


def _hints(bench: Bench, branch: str, _: Parameters) -> Work | None:
    wrong = wrong_hints(bench.main.file_io, bench.main.paths.with_branch(branch))
    if not wrong:
        return None
    changes = tuple(f"{path} -> {right}" for path, right in sorted(wrong.items()))
    return Work(why="hints do not say what is there", changes=changes, paths=frozenset(wrong))


def _repair_hints(bench: Bench, branch: str, _: Parameters, wanted: frozenset[str]) -> Done:
    return Done(files=len(repair_hints(bench.main.file_io, bench.main.paths.with_branch(branch))))


def _earliest(bench: Bench, branch: str, _: Parameters) -> Work | None:
    paths = bench.main.paths.with_branch(branch)
    right = wrong_earliest(bench.main.file_io, paths)
    if right is None:
        return None
    return Work(
        why="snapshots are missing in between: Java's expiry gives up for good unless EARLIEST is after them",
        changes=(f"{paths.earliest_hint} -> {right}",),
        loses="nothing; Java no longer sees the snapshots before the gap",
        paths=frozenset((paths.earliest_hint, paths.snapshot(right))),
    )


def _repair_earliest(bench: Bench, branch: str, _: Parameters, wanted: frozenset[str]) -> Done:
    paths = bench.main.paths.with_branch(branch)
    right = earliest_after_gap(bench.main.file_io, paths)
    if right is not None:
        bench.main.file_io.overwrite(paths.earliest_hint, str(right).encode())
    return Done(files=1)


def _lost_branch(bench: Bench, branch: str, _: Parameters) -> Work | None:
    """A branch without any schema: what it needs cannot be known, so every chore on the table stops."""
    paths = bench.main.paths.with_branch(branch)
    if branch == bench.main.paths.branch or _has_schema(bench, branch):
        return None
    files = tuple(sorted(_files(bench, paths.root)))
    if not files:
        return None
    why = f"branch {branch!r} has no schema: it cannot be read, and stops every chore"
    return Work(why=why, changes=files, loses="the branch", undo=True, paths=frozenset(files))


def _has_schema(bench: Bench, branch: str) -> bool:
    listed = bench.main.file_io.list(bench.main.paths.with_branch(branch).schema_dir)
    return any(status.name.startswith("schema-") for status in listed)


def _files(bench: Bench, directory: str) -> Iterator[str]:
    for status in bench.main.file_io.list(directory):
        if status.is_dir:
            yield from _files(bench, status.path)
        else:
            yield status.path


def _remove_branch(bench: Bench, branch: str, _: Parameters, wanted: frozenset[str]) -> Done:
    why = f"branch {branch!r} has no schema"
    return set_aside(bench, "branch", Removal(tuple(Doomed(path, 0, why) for path in sorted(wanted))))


@dataclass(frozen=True, slots=True)
class Broken:
    """What cannot be read of a branch, path to reason. `whole`: ids of snapshots that can; `latest`: the
    highest id, broken or not.
    """

    snapshots: dict[int, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    whole: tuple[int, ...] = ()
    latest: int | None = None


def broken_roots(target: Target) -> Broken:
    """Snapshots, tags and changelogs whose file, lists or manifests are gone or damaged.

    Manifests count by name only. Cost: a small read a root and list, one listing of manifests; a look at
    each manifest that is not listed. Raises UnavailableError.
    """
    look = _Look(target)
    snapshots = {
        number: look.problem(target.paths.snapshot(number)) for number in target.snapshots.list_ids()
    }
    others = {target.paths.tag(name): look.problem(target.paths.tag(name)) for name in target.tags.list()}
    for number in target.changelogs.list_ids():
        path = target.paths.changelog(number)
        others[path] = look.unreadable(path)
    return Broken(
        {number: why for number, why in snapshots.items() if why},
        {path: why for path, why in others.items() if why},
        tuple(number for number, why in snapshots.items() if not why),
        max(snapshots, default=None),
    )


@dataclass(slots=True)
class _Look:
    target: Target
    lists: dict[str, str] = field(default_factory=dict)
    present: frozenset[str] | None = None

    def unreadable(self, path: str) -> str:
        try:
            Snapshot.from_json(self.target.file_io.read(path), path)
        except CorruptDataError as err:
            return err.problem
        except NotFoundError:
            return ""  # it went meanwhile
        return ""

    def problem(self, path: str) -> str:
        """Why it cannot be read; empty when it can."""
        if why := self.unreadable(path):
            return why
        try:
            snapshot = Snapshot.from_json(self.target.file_io.read(path), path)
        except NotFoundError:
            return ""
        names = [getattr(snapshot, name) for name in _LISTS]
        if snapshot.index_manifest is not None and not self._exists(snapshot.index_manifest):
            return f"index manifest {snapshot.index_manifest} is gone"
        return next((why for name in names if (why := self._list(name))), "")

    def _list(self, name: str) -> str:
        if name not in self.lists:
            self.lists[name] = self._list_problem(name)
        return self.lists[name]

    def _list_problem(self, name: str) -> str:
        try:
            files = self.target.manifests.read_list(name)
        except NotFoundError:
            return f"manifest list {name} is gone"
        except CorruptDataError as err:
            return f"manifest list {name} is damaged: {err.problem}"
        gone = [file.file_name for file in files if not self._exists(file.file_name)]
        return f"{_MANIFEST} {gone[0]} is gone" if gone else ""

    def _exists(self, name: str) -> bool:
        if self.present is None:
            listed = self.target.file_io.list(self.target.paths.manifest_dir)
            self.present = frozenset(status.name for status in listed)
        return name in self.present or self.target.file_io.stat(self.target.paths.manifest(name)) is not None


def _beyond(broken: Broken) -> str:
    """Why the latest snapshot cannot be repaired; empty where it can: lost manifests can be left out."""
    why = "" if broken.latest is None else broken.snapshots.get(broken.latest, "")
    return "" if why.startswith(_MANIFEST) else why


def _rollback(bench: Bench, branch: str, _: Parameters) -> Work | None:
    """The latest snapshot is beyond repair: its lists, its index manifest or its own file are gone."""
    target = bench.at(branch)
    broken = broken_roots(target)
    why = _beyond(broken)
    if not why:
        return None
    if not broken.whole:
        raise UnsupportedError(
            f"{target.name}: no snapshot of branch {branch!r} can be read; restore from a tag"
        )
    goal = broken.whole[-1]
    paths = _after(target, goal)
    return Work(
        why=f"snapshot {broken.latest}: {why}; snapshot {goal} is the newest that can be read",
        changes=tuple(paths),
        rows=None,
        loses=f"what came after snapshot {goal}",
        undo=True,
        paths=frozenset(paths),
    )


def _after(target: Target, goal: int) -> list[str]:
    """Snapshots from the newest back, then changelogs and tags, that came after one."""
    paths = target.paths
    found = [paths.snapshot(number) for number in reversed(target.snapshots.list_ids()) if number > goal]
    found += [paths.changelog(number) for number in reversed(target.changelogs.list_ids()) if number > goal]
    for name in target.tags.list():
        path = paths.tag(name)
        with suppress(CorruptDataError, NotFoundError):
            if Snapshot.from_json(target.file_io.read(path), path).id > goal:
                found.append(path)
    return found


def _roll_back(bench: Bench, branch: str, _: Parameters, wanted: frozenset[str]) -> Done:
    """LATEST goes back first: others trust it blindly."""
    target = bench.at(branch)
    broken = broken_roots(target)
    goal = broken.whole[-1]
    why = f"came after snapshot {goal}, the newest that can be read"
    paths = [path for path in _after(target, goal) if path in wanted]
    target.file_io.overwrite(target.paths.latest_hint, str(goal).encode())
    removal = Removal(tuple(Doomed(path, 0, why) for path in paths))
    done = set_aside(bench, "roll-back", removal, settle=lambda: _settle(bench, branch))
    return replace(done, snapshot=goal)


def _roots(bench: Bench, branch: str, _: Parameters) -> Work | None:
    """Old snapshots go with all that are older, so that no gap is left; tags and changelogs one by one."""
    target = bench.at(branch)
    broken = broken_roots(target)
    old = [number for number in broken.snapshots if number != broken.latest or not _beyond(broken)]
    ids = [number for number in target.snapshots.list_ids() if old and number <= max(old)]
    changes = (*(target.paths.snapshot(number) for number in ids), *sorted(broken.others))
    if not changes:
        return None
    reasons = [*broken.snapshots.items(), *broken.others.items()]
    shown = "; ".join(f"{name}: {why}" for name, why in reasons[:3])
    healthy = [str(number) for number in ids if number not in old]
    return Work(
        why=f"cannot be read, and stops every chore: {shown}",
        changes=changes,
        loses=f"time travel to snapshots {', '.join(healthy)}" if healthy else "",
        undo=True,
        paths=frozenset(changes),
    )


def _remove_roots(bench: Bench, branch: str, _: Parameters, wanted: frozenset[str]) -> Done:
    """Oldest first, as expiry does: whatever stops it leaves an unbroken row. Never the latest snapshot."""
    target = bench.at(branch)
    ids = target.snapshots.list_ids()[:-1]
    snapshots = [path for path in map(target.paths.snapshot, ids) if path in wanted]
    others = sorted(path for path in wanted if not path.startswith(f"{target.paths.snapshot_dir}/"))
    removal = Removal(
        tuple(Doomed(path, 0, "it points at files that are gone") for path in (*snapshots, *others))
    )
    return set_aside(bench, "unreadable", removal, settle=lambda: _settle(bench, branch))


def _settle(bench: Bench, branch: str) -> None:
    repair_hints(bench.main.file_io, bench.main.paths.with_branch(branch))


HINTS = Action(look=_hints, do=_repair_hints)
EARLIEST = Action(look=_earliest, do=_repair_earliest)
LOST_BRANCH = Action(look=_lost_branch, do=_remove_branch)
ROLLBACK = Action(look=_rollback, do=_roll_back)
BROKEN_ROOTS = Action(look=_roots, do=_remove_roots)
