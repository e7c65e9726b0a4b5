"""LATEST and EARLIEST of a branch's snapshots and changelogs, made to say what the listing says."""

from __future__ import annotations

from lakecore.errors import NotFoundError
from lakecore.fs.file_io import FileIO
from lakecore.store.changelogs import ChangelogStore
from lakecore.store.paths import TablePaths
from lakecore.store.snapshots import SnapshotStore

__all__ = ["repair_hints", "wrong_hints"]


def wrong_hints(file_io: FileIO, paths: TablePaths) -> dict[str, int | None]:
    """Hint files that are missing or wrong, and what they should say; None: they should not be there.

    Changelogs need no hints: one that is missing is right.
    """
    out: dict[str, int | None] = {}
    ids = SnapshotStore(file_io, paths).list_ids()
    changelogs = ChangelogStore(file_io, paths).list_ids()
    for folder, found in ((paths.snapshot_dir, ids), (paths.changelog_dir, changelogs)):
        first, last = (found[0], found[-1]) if found else (None, None)
        for path, right in ((f"{folder}/EARLIEST", first), (f"{folder}/LATEST", last)):
            text = _content(file_io, path)
            missing = text is None and folder == paths.changelog_dir
            if not missing and text != (None if right is None else str(right)):
                out[path] = right
    return out


def repair_hints(file_io: FileIO, paths: TablePaths) -> dict[str, int | None]:
    """Correct them; what was changed. A commit at the same time can make LATEST stale again: harmless."""
    wrong = wrong_hints(file_io, paths)
    for path, right in wrong.items():
        if right is None:
            file_io.delete(path)
        else:
            file_io.overwrite(path, str(right).encode())
    return wrong


def _content(file_io: FileIO, path: str) -> str | None:
    try:
        return file_io.read(path).decode(errors="replace").strip()
    except NotFoundError:
        return None
