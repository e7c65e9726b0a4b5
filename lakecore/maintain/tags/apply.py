"""This module changes the tag files of one branch."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnavailableError
from lakecore.fs.publish import publish_resolved
from lakecore.maintain.auto_tags.options import MODE
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.deletion.drop import plan_removal
from lakecore.maintain.deletion.quarantined import quarantined_roots
from lakecore.maintain.deletion.roots import Root, RootKind, RootSet, read_roots
from lakecore.maintain.deletion.runs import Removal
from lakecore.maintain.deletion.sweep import RootSteps, Sweeper, SweepResult
from lakecore.maintain.tags.callbacks import TagChange, run_tag_callbacks
from lakecore.maintain.tags.plan import AgedTag
from lakecore.maintain.target import Target
from lakecore.maintain.wall_clock import WallClock
from lakecore.metadata.json_record import json_object
from lakecore.metadata.tag import TAG_KEYS
from lakecore.options import Option, parse_bool
from lakecore.scan.auto_tags import AutoTagNames
from lakecore.types.text import timestamp_text

__all__ = [
    "Lifetime",
    "aged_tags",
    "check_auto_name",
    "choose",
    "create",
    "delete",
    "deletion",
    "move_tag",
    "rename",
    "replace",
    "write_missing_success_files",
    "writes_success_files",
]

_WHY = "only this tag referred to it"
_MILLI = 1_000_000
SUCCESS_FILE = Option("tag.create-success-file", parse_bool, False, "Whether a tag gets a success file.")


@dataclass(frozen=True, slots=True)
class Lifetime:
    """This is the time that a tag lives. `created` is the local wall clock as [year, month, …,
    nanosecond]; `seconds` is how long the tag stays.
    """

    created: tuple[int, ...]
    seconds: float

    @classmethod
    def starting(cls, now_ms: int, wall: WallClock, retained_ms: int | None) -> Lifetime | None:
        """Return a lifetime that starts now, by that wall clock; None: the tag does not expire."""
        local = wall.local_ms(now_ms)
        if retained_ms is None or local is None:
            return None
        parts = re.split("[- :]", timestamp_text(local // 1000 * 1_000_000_000, 0))
        return cls((*map(int, parts), local % 1000 * _MILLI), retained_ms / 1000)


def choose(target: Target, *, snapshot: int | None, timestamp_ms: int | None, watermark: int | None) -> Root:
    """Return the snapshot to tag: by id, the first committed at or after a time, the first with a watermark
    that high.

    Without any of them it is the latest. Snapshots that only tags keep count too. Raises NotFoundError.
    """
    if sum(one is not None for one in (snapshot, timestamp_ms, watermark)) > 1:
        raise InvalidInputError("snapshot, timestamp and watermark exclude each other; give one of them")
    roots = read_roots(target.file_io, target.paths)
    branch = target.paths.branch
    candidates = [*roots.of(RootKind.SNAPSHOT, branch), *roots.of(RootKind.TAG, branch)]
    candidates.sort(key=lambda root: (root.snapshot.id, root.kind is RootKind.TAG))
    what = "the latest snapshot"
    if snapshot is not None:
        candidates, what = (
            [root for root in candidates if root.snapshot.id == snapshot],
            f"snapshot {snapshot}",
        )
    elif timestamp_ms is not None:
        candidates = [root for root in candidates if root.snapshot.time_millis >= timestamp_ms]
        what = f"a snapshot committed at or after {timestamp_ms} ms"
    elif watermark is not None:
        candidates = [
            r for r in candidates if r.snapshot.watermark is not None and r.snapshot.watermark >= watermark
        ]
        what = f"a snapshot with a watermark of {watermark} or more"
    else:
        candidates = [root for root in candidates if root.kind is RootKind.SNAPSHOT][-1:]
    if not candidates:
        ids = ", ".join(str(root.snapshot.id) for root in roots.of(RootKind.SNAPSHOT, branch)[:20]) or "none"
        raise NotFoundError(f"{target.name} has no snapshot to tag: {what} is not among the snapshots {ids}")
    return candidates[0]


def create(target: Target, name: str, root: Root, lifetime: Lifetime | None) -> bool:
    """Create a tag. Return False if it exists already and is the same.

    Raises AlreadyExistsError for another tag of that name, NotFoundError when the snapshot expired meanwhile.
    """
    path = target.paths.tag(name)
    data = _content(target, root, lifetime)
    if target.file_io.stat(path) is not None or not publish_resolved(
        target.file_io, path, data, target.clock
    ):
        if _lists(target.file_io.read(path)) == _lists(data):
            write_missing_success_files(target, [name])
            return False
        raise AlreadyExistsError(f"tag {name!r} of {target.name} exists; replace it, or choose another name")
    if not _still_there(target, root, path):
        target.file_io.delete(path)
        raise NotFoundError(
            f"snapshot {root.snapshot.id} of {target.name} expired while it was being tagged; "
            "tag another snapshot"
        )
    _write_success_file(target, name)
    run_tag_callbacks(target, TagChange.CREATED, [name], root.snapshot.id)
    return True


def replace(
    name: str,
    root: Root,
    lifetime: Lifetime | None,
    sweeper: Sweeper,
    *,
    quarantine: bool,
    parameters: dict[str, object],
) -> SweepResult:
    """Let the tag stand for another snapshot, at once and without a gap; then free what only the old one
    needed.

    Raises NotFoundError, UnavailableError when the snapshot expires meanwhile.
    """
    target = sweeper.target
    path = target.paths.tag(name)
    old = Root(RootKind.TAG, target.paths.branch, name, path, target.tags.load(name))
    others = read_roots(target.file_io, target.paths).without([path])
    new = Root(RootKind.TAG, old.branch, name, path, root.snapshot)
    new_roots = RootSet((*others.roots, new), others.branches)
    protected = quarantined_roots(sweeper.runs, target.name)
    files = plan_removal(target, [old], new_roots, protected, "only the replaced tag referred to it").files
    return sweeper.sweep(
        "replace-tag",
        Removal(files=files),
        new_roots,
        quarantine=quarantine,
        steps=RootSteps(prepare=lambda: _set(target, name, root, _content(target, root, lifetime))),
        parameters=parameters,
    )


def move_tag(target: Target, name: str, root: Root, lifetime: Lifetime | None) -> None:
    """Let a tag stand for another snapshot and leave what only the old one needed to the next orphan search.

    Raises UnavailableError when the snapshot expires meanwhile.
    """
    _set(target, name, root, _content(target, root, lifetime))


def check_auto_name(target: Target, name: str, snapshot: int, *, instead_of: str = "") -> None:
    """Raise an error if another automatic tag has the snapshot. Rule of the format: a snapshot has at most
    one, or other writers fail from then on.

    `instead_of`: a tag that will be gone. Raises InvalidInputError for a second name of that kind, where the
    table makes such tags by itself.
    """
    options = target.schema.options
    if not MODE.read(options).by_period:
        return
    names = AutoTagNames.from_options(options)
    if names.time_of(name) is None:
        return
    others = [other for other in target.tags.list() if other not in (name, instead_of)]
    for other in others:
        if names.time_of(other) is not None and target.tags.load(other).id == snapshot:
            raise InvalidInputError(
                f"tag {name!r} of {target.name}: snapshot {snapshot} already has the automatic tag "
                f"{other!r} and cannot have a second one; choose a name that is not like "
                f"{names.example}"
            )


def _set(target: Target, name: str, root: Root, data: bytes) -> None:
    path = target.paths.tag(name)
    target.file_io.overwrite(path, data)
    if not _still_there(target, root, path):
        raise UnavailableError(
            f"snapshot {root.snapshot.id} of {target.name} expired while tag {name!r} was set "
            "to it; replace the tag again with a snapshot that exists"
        )
    run_tag_callbacks(target, TagChange.MOVED, [name], root.snapshot.id)


def rename(target: Target, name: str, new_name: str) -> None:
    """Rename a tag. It is written under the new name first, so that the tag is always there. The call can be
    repeated.
    """
    path, new_path = target.paths.tag(name), target.paths.tag(new_name)
    snapshot = target.tags.load(name)
    data = target.file_io.read(path)
    if not publish_resolved(target.file_io, new_path, data, target.clock):
        raise AlreadyExistsError(f"tag {new_name!r} of {target.name} exists; choose another name")
    target.file_io.delete(path)
    run_tag_callbacks(target, TagChange.CREATED, [new_name], snapshot.id)
    run_tag_callbacks(target, TagChange.DELETED, [name])


def deletion(target: Target, sweeper: Sweeper, names: Sequence[str]) -> tuple[Removal, RootSet]:
    """Return what is removed with these tags, and the roots that stay. Names that do not exist are left
    out.
    """
    roots = read_roots(target.file_io, target.paths)
    paths = frozenset(target.paths.tag(name) for name in names)
    removed_roots = [root for root in roots.of(RootKind.TAG, target.paths.branch) if root.path in paths]
    remaining = roots.without(root.path for root in removed_roots)
    protected = quarantined_roots(sweeper.runs, target.name)
    removal = plan_removal(target, removed_roots, remaining, protected, _WHY)
    success_files = [_success_path(target, root.name) for root in removed_roots]
    files = tuple(
        PlannedDeletion(path, 0, "it belongs to the tag")
        for path in success_files
        if target.file_io.stat(path) is not None
    )
    return Removal((*removal.roots, *files), removal.files), remaining


def delete(
    job: str,
    planned: tuple[Removal, RootSet],
    sweeper: Sweeper,
    *,
    quarantine: bool,
    parameters: dict[str, object],
) -> SweepResult:
    """Carry out a deletion."""
    removal, roots = planned
    prefix = f"{sweeper.target.paths.tag_dir}/tag-"
    names = [one.path.removeprefix(prefix) for one in removal.roots if one.path.startswith(prefix)]
    swept = sweeper.sweep(job, removal, roots, quarantine=quarantine, parameters=parameters)
    run_tag_callbacks(sweeper.target, TagChange.DELETED, names)
    return swept


def aged_tags(target: Target, offset_ms: int) -> list[AgedTag]:
    """Return all tags with their ages. `offset_ms` is that of the wall clock that tags are written by, to
    UTC.
    """
    statuses = {status.path: status.mtime_ms for status in target.file_io.list(target.paths.tag_dir)}
    out = []
    for name in target.tags.list():
        tag = target.tags.open(name)
        out.append(
            AgedTag(
                name=name,
                created_ms=None if tag.created is None else tag.created // _MILLI - offset_ms,
                retained_ms=None if tag.retained is None else tag.retained // _MILLI,
                written_ms=statuses.get(target.paths.tag(name), 0),
            )
        )
    return out


def _content(target: Target, root: Root, lifetime: Lifetime | None) -> bytes:
    """Return the snapshot's own JSON, with whatever a newer release put into it, and the tag's keys."""
    raw = json_object(target.file_io.read(root.path))
    plain = {key: value for key, value in raw.items() if key not in TAG_KEYS}
    if lifetime is not None:
        plain |= {"tagCreateTime": list(lifetime.created), "tagTimeRetained": lifetime.seconds}
    return json.dumps(plain, indent=2).encode()


def _lists(data: bytes) -> tuple[object, object]:
    raw = json_object(data)
    return raw.get("baseManifestList"), raw.get("deltaManifestList")


def _still_there(target: Target, root: Root, path: str) -> bool:
    """Return whether the snapshot, or some other tag of it, was still there after the tag was written."""
    if target.file_io.stat(root.path) is not None and root.path != path:
        return True
    roots = read_roots(target.file_io, target.paths)
    return any(other.snapshot.state == root.snapshot.state and other.path != path for other in roots.roots)


def _success_path(target: Target, name: str) -> str:
    return f"{target.paths.tag_dir}/tag-success-file/{name}_SUCCESS"


def write_missing_success_files(target: Target, names: Sequence[str]) -> None:
    """Make the success files that a killed run left out."""
    for name in names if writes_success_files(target) else ():
        if target.file_io.stat(_success_path(target, name)) is None:
            _write_success_file(target, name)


def writes_success_files(target: Target) -> bool:
    """Return whether the option tag.create-success-file is set."""
    return SUCCESS_FILE.read(target.schema.options)


def _write_success_file(target: Target, name: str) -> None:
    if writes_success_files(target):
        now = target.clock.now_ms()
        text = json.dumps({"creationTime": now, "modificationTime": now})
        target.file_io.overwrite(_success_path(target, name), text.encode())
