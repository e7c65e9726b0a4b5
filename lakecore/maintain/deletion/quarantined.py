"""This module has the snapshots, tags and changelogs in the quarantine of a table. They count as roots, so
that each run can be taken back alone.

Their manifest lists, and the manifests that nothing else needs, are in the quarantine and are read there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import field
from typing import Any, cast

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError, UnsupportedError
from lakecore.fs.file_io import FileIO
from lakecore.maintain.deletion.reachable import Reach
from lakecore.maintain.deletion.roots import Root, RootKind
from lakecore.maintain.deletion.runs import Removal, RunRecord, RunState, RunStore
from lakecore.maintain.target import Target
from lakecore.metadata.snapshot import Snapshot

__all__ = ["QuarantinedRoots", "quarantined_roots", "read_root"]

logger = logging.getLogger(__name__)

_KINDS = {"snapshot-": RootKind.SNAPSHOT, "tag-": RootKind.TAG, "changelog-": RootKind.CHANGELOG}
_MANIFEST_DIRECTORY = "/manifest"
"""The directory of the metadata by which files are reached."""


@dataclass(frozen=True, slots=True)
class QuarantinedRoots:
    """These roots are in the quarantine. `places` has the present path of metadata, by the path it had in
    the table.
    """

    roots: tuple[Root, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)

    def reach(self, target: Target) -> Reach:
        """Return what the roots need; whatever cannot be read is left out."""
        storage = cast(FileIO, _WithQuarantine(target.file_io, self.places))
        return Reach(target.with_storage(storage), strict=False)


def quarantined_roots(runs: RunStore, table: str) -> QuarantinedRoots:
    """Return the quarantined roots of a table, with its branches. It reads the lists of files of all its runs
    in the quarantine.

    Memory: some hundred bytes a metadata file in the quarantine.
    """
    roots: list[Root] = []
    places: dict[str, str] = {}
    for record in runs.list(table):
        if not record.keeps or record.state not in (RunState.QUARANTINED, RunState.PLANNED):
            continue
        removal = _removal_of(runs, record)
        for number, deletion in enumerate(removal):
            directory, _, name = deletion.path.rpartition("/")
            place = runs.quarantine_path(record, number, deletion.path)
            if directory.endswith(_MANIFEST_DIRECTORY):
                places[deletion.path] = place
            root = None if number >= len(removal.roots) else read_root(runs, place, name)
            if root is not None:
                roots.append(root)
    return QuarantinedRoots(tuple(roots), places)


def _removal_of(runs: RunStore, record: RunRecord) -> Removal:
    """Return the removal of a run, which is empty if the record is damaged: nobody can undo that run."""
    try:
        return runs.removal(record)
    except (CorruptDataError, UnsupportedError) as err:
        logger.warning(
            "the quarantine of run %s cannot be restored and protects no files: %s", record.id, err
        )
        return Removal()


def read_root(runs: RunStore, path: str, name: str) -> Root | None:
    """Return the root at `path` of the quarantine, whose file had that name in the table; None for another
    file, and where it is damaged or is not there. Raises UnavailableError.
    """
    kind = next((kind for start, kind in _KINDS.items() if name.startswith(start)), None)
    if kind is None:
        return None
    try:
        data = runs.file_io.read(path)
    except (NotFoundError, UnsupportedError):
        return None  # a symbolic link is none of the files that were moved there
    try:
        snapshot = Snapshot.from_json(data, path)
    except CorruptDataError:
        return None
    return Root(kind, "main", f"{snapshot.id} in quarantine", path, snapshot)


class _WithQuarantine:
    """Storage that reads a file from the quarantine when it is not at its place in the table."""

    def __init__(self, inner: FileIO, places: Mapping[str, str]) -> None:
        self._inner, self._places = inner, places

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, path: str) -> bytes:
        """Read a file, also one that was moved to the quarantine. Raises the errors of `FileIO.read`."""
        try:
            return self._inner.read(path)
        except NotFoundError:
            if path not in self._places:
                raise
            return self._inner.read(self._places[path])
