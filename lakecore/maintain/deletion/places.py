"""This module checks whether what a run is about to remove, or to restore, is the table's own, before any of
it is changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakecore.fs.allowed_paths import AllowedPaths
from lakecore.fs.confined import ConfinedFileIO
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.target import Target

__all__ = ["allowed_paths", "check_removable"]


def allowed_paths(target: Target) -> AllowedPaths:
    """Return what the work on the table may change: as its catalog declares, else its own directory only."""
    if isinstance(target.file_io, ConfinedFileIO):
        return target.file_io.allowed
    return AllowedPaths(warehouse=target.warehouse.rstrip("/") or "/", own=target.paths.table_path)


def check_removable(target: Target, files: Iterable[PlannedDeletion]) -> None:
    """Raise the error of `AllowedPaths.check_removable` for the first file that is not removable. The cost is
    1 us per file.
    """
    allowed = allowed_paths(target)
    for deletion in files:
        allowed.check_removable(deletion.path)
