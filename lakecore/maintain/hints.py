"""This module makes LATEST and EARLIEST of a branch's snapshots and changelogs say what the listing says."""

from __future__ import annotations

from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.fs.file_io import FileIO
from lakecore.store.changelogs import ChangelogStore
from lakecore.store.paths import TablePaths
from lakecore.store.snapshots import SnapshotStore

__all__ = ["earliest_after_gap", "repair_earliest", "repair_hints", "wrong_earliest", "wrong_hints"]


def wrong_hints(file_io: FileIO, paths: TablePaths) -> dict[str, int | None]:
    """Return the hint files that are missing or wrong, and what they should contain (None: they should not
    exist).

    Changelogs need no hints: one that is missing is right. EARLIEST may also be the first after a gap.
    """
    out: dict[str, int | None] = {}
    ids = SnapshotStore(file_io, paths).list_ids()
    changelogs = ChangelogStore(file_io, paths).list_ids()
    for folder, numbers in ((paths.snapshot_dir, ids), (paths.changelog_dir, changelogs)):
        first, last = (numbers[0], numbers[-1]) if numbers else (None, None)
        for path, right in ((f"{folder}/EARLIEST", first), (f"{folder}/LATEST", last)):
            text = _content(file_io, path)
            missing = text is None and folder == paths.changelog_dir
            after_gap = path == paths.earliest_hint and _is_after_gap(text, ids)
            if not missing and not after_gap and text != (None if right is None else str(right)):
                out[path] = right
    return out


def repair_hints(file_io: FileIO, paths: TablePaths) -> dict[str, int | None]:
    """Correct the hints and return what was changed. A commit at the same time can make LATEST stale again,
    which is harmless. A rollback or another creation of the table at the same time can remove what a hint
    names, which others would trust: such a hint is removed again.
    """
    wrong = wrong_hints(file_io, paths)
    for path, right in wrong.items():
        if right is None:
            file_io.delete(path)
        else:
            file_io.overwrite(path, str(right).encode())
            folder = path.rpartition("/")[0]
            if file_io.stat(f"{folder}/{folder.rpartition('/')[2]}-{right}") is None:
                file_io.delete(path)
    return wrong


def _content(file_io: FileIO, path: str) -> str | None:
    try:
        return file_io.read(path).decode(errors="replace").strip()
    except NotFoundError:
        return None


def _continuous_from(ids: tuple[int, ...]) -> int | None:
    """Return the first id of the sequence without gaps that ends with the last id, or None if there are no
    ids.
    """
    first = None
    for number in reversed(ids):
        if first is not None and number != first - 1:
            break
        first = number
    return first


def earliest_after_gap(file_io: FileIO, paths: TablePaths) -> int | None:
    """Return the first snapshot after the last gap in the ids, or None without a gap."""
    ids = SnapshotStore(file_io, paths).list_ids()
    first = _continuous_from(ids)
    return None if not ids or first == ids[0] else first


def wrong_earliest(file_io: FileIO, paths: TablePaths) -> int | None:
    """Return the first snapshot after the last gap, or None without a gap or if EARLIEST is right already."""
    right = earliest_after_gap(file_io, paths)
    return None if right is None or _content(file_io, paths.earliest_hint) == str(right) else right


def repair_earliest(file_io: FileIO, paths: TablePaths, snapshot_id: int, *, dry_run: bool) -> int:
    """Let EARLIEST say `snapshot_id`, the first of an unbroken row that ends with the latest; what was seen
    as the earliest before. Raises InvalidInputError for another id, NotFoundError without snapshots.
    """
    store = SnapshotStore(file_io, paths)
    ids, earliest = store.list_ids(), store.earliest()
    if earliest is None:
        raise NotFoundError(f"{paths.root} has no snapshots, so there is no earliest one")
    right = _continuous_from(ids)
    if snapshot_id != right or snapshot_id < earliest.id:
        raise InvalidInputError(
            f"snapshot {snapshot_id} of {paths.root} cannot be the hint EARLIEST, which must "
            f"be {right}, the first of the consecutive snapshots up to {ids[-1]}"
        )
    if not dry_run and _content(file_io, paths.earliest_hint) != str(snapshot_id):
        file_io.overwrite(paths.earliest_hint, str(snapshot_id).encode())
    return earliest.id


def _is_after_gap(text: str | None, ids: tuple[int, ...]) -> bool:
    return text is not None and text == str(_continuous_from(ids))
