"""This module reads the live files of a snapshot in groups, so that memory does not grow with the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.shape import Shape, sum_of
from lakecore.metadata.snapshot import Snapshot
from lakecore.scan.filters import EVERYTHING, ScanFilter, select_entries
from lakecore.scan.scanner import Scanner

__all__ = ["LiveFiles"]

Specs = tuple[Mapping[str, Any], ...]


class LiveFiles:
    """These are the live files of a snapshot, or those that the filter `where` selects, in groups of buckets.

    A group has the entries of some million files (0.7 GB). A table that is one group is read once and kept;
    each walk over several groups reads the manifests of each. All methods raise what `Scanner.live_entries`
    raises.
    """

    def __init__(self, scanner: Scanner, snapshot: Snapshot, where: ScanFilter = EVERYTHING) -> None:
        self._scanner, self._snapshot = scanner.with_lists(snapshot), snapshot
        self._groups = tuple(self._scanner.groups(snapshot, where))
        self._only_group: ManifestEntries | None = None

    def groups(self, partitions: Specs | None = None) -> Iterator[ManifestEntries]:
        """Yield the entries of all partitions, or of those that agree with a (partial) specification."""
        for group in self._groups:
            entries = self._read(group)
            if partitions is None:
                yield entries
            else:
                where = ScanFilter(partitions=partitions)
                yield select_entries(entries, where, self._scanner.stores.schema.partition_type)

    def _read(self, group: ScanFilter) -> ManifestEntries:
        if self._only_group is not None:
            return self._only_group
        entries = self._scanner.live_entries(self._snapshot, group)
        self._only_group = entries if len(self._groups) == 1 else None
        return entries

    def shape(self, partitions: Specs | None = None) -> Shape:
        """Return how many files there are, their bytes and rows."""
        keyed = bool(self._scanner.stores.schema.primary_keys)
        return sum_of(Shape.of(entries, keyed=keyed) for entries in self.groups(partitions))
