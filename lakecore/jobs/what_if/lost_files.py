"""This module has the files that a replay of compactions lost because their partitions would have expired."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakecore.compact.engine.work import Place
from lakecore.metadata.manifest.data_file import DataFile, EntryKind, ManifestEntry

__all__ = ["LostFiles"]


class LostFiles:
    """It has the names of these files by bucket, and the buckets in which others of unknown rows replaced
    them.
    """

    def __init__(self) -> None:
        self._names: dict[Place, set[str]] = {}
        self._mixed: set[Place] = set()

    def add(self, place: Place, files: Iterable[DataFile]) -> None:
        """Add the files that a bucket had when its partition expired."""
        self._names.setdefault(place, set()).update(file.file_name for file in files)
        self._mixed.discard(place)

    def left_of(
        self, place: Place, entries: Sequence[ManifestEntry], *, compacts: bool
    ) -> Sequence[ManifestEntry]:
        """Return what a commit of the history does to a bucket without its lost files. What a compaction made
        of them alone is lost, too.
        """
        names = self._names.get(place)
        if not names:
            return entries
        removed = [one for one in entries if one.kind is EntryKind.DELETE]
        lost = [one for one in removed if one.file.file_name in names]
        if lost and compacts and len(lost) == len(removed):
            names.update(one.file.file_name for one in entries)
        elif lost:
            self._mixed.add(place)
        return [one for one in entries if one.file.file_name not in names]

    def mixed(self, place: Place) -> bool:
        """Return whether a commit replaced lost files of the bucket together with others, or a writer did so.
        Which rows the new files would have is unknown.
        """
        return place in self._mixed
