"""This module says how many files each level of a table had at its last snapshots.

It reads the live files of the newest snapshot, and then the delta manifests of one snapshot after another,
backwards: each costs two small reads or more, and some 3 us an entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.jobs.runner.lake import Lake
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.snapshot import Snapshot
from lakecore.table import Table

__all__ = ["LevelPoint", "level_history"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelPoint:
    """This is the shape of a table at one snapshot."""

    snapshot: int
    time_ms: int
    kind: str
    """This is the kind of the commit: APPEND, COMPACT and so on."""
    levels: Mapping[int, tuple[int, int]]
    """It has the number of files and their bytes by level. A table without a key has level 0 only."""
    sorted_runs: int
    """The most sorted runs that one bucket has; 0 for a table without a key."""


def level_history(lake: Lake, name: str, most: int = 40) -> tuple[LevelPoint, ...]:
    """Return the shape of a table at its last `most` snapshots, the oldest first. It ends earlier where a
    snapshot is missing. Raises NotFoundError for a table that does not exist, CorruptDataError,
    UnavailableError.
    """
    table = lake.load_table(name)
    latest = table._stores.snapshots.latest()
    return () if latest is None else tuple(reversed(tuple(_backwards(table, latest, most))))


def _backwards(table: Table, latest: Snapshot, most: int) -> Iterator[LevelPoint]:
    stores, keyed = table._stores, bool(table.schema.primary_keys)
    state = _Levels()
    state.apply(table._scanner.live_entries(latest), 1)
    snapshot = latest
    for remaining in range(most - 1, -1, -1):
        yield LevelPoint(
            snapshot=snapshot.id,
            time_ms=snapshot.time_millis,
            kind=snapshot.commit_kind.value,
            levels=state.levels(),
            sorted_runs=state.sorted_runs() if keyed else 0,
        )
        if not remaining:
            return
        try:
            before = stores.snapshots.load(snapshot.id - 1)
        except NotFoundError:
            return
        delta = stores.manifests.read(stores.manifests.read_list(snapshot.delta_manifest_list))
        state.apply(delta.select(delta.kind == EntryKind.ADD), -1)
        state.apply(delta.select(delta.kind == EntryKind.DELETE), 1)
        snapshot = before


@dataclass(slots=True)
class _Levels:
    """It counts files and bytes by level, and files by bucket and level."""

    _sizes: Counter[int] = field(default_factory=Counter)
    _buckets: dict[tuple[bytes, int], Counter[int]] = field(default_factory=dict)

    def apply(self, entries: ManifestEntries, sign: int) -> None:
        """Add the files of the entries, or with -1 take them away."""
        if not len(entries):
            return
        keys = np.stack([entries.partition, entries.bucket, entries.level]).astype(np.int64)
        places, inverse = np.unique(keys, axis=1, return_inverse=True)
        counts = np.bincount(inverse.ravel())
        sizes = np.bincount(inverse.ravel(), weights=entries.file_size).astype(np.int64)
        for place, (code, bucket, level) in enumerate(places.T.tolist()):
            files = self._buckets.setdefault((entries.partitions[code], bucket), Counter())
            files[level] += sign * int(counts[place])
            self._sizes[level] += sign * int(sizes[place])

    def levels(self) -> dict[int, tuple[int, int]]:
        """Return files and bytes of the levels that have files."""
        files: Counter[int] = Counter()
        for bucket in self._buckets.values():
            files.update(bucket)
        return {level: (files[level], self._sizes[level]) for level in sorted(files) if files[level]}

    def sorted_runs(self) -> int:
        """Return the most sorted runs of a bucket: each file of level 0, and each other level, is one."""
        return max((_runs(files) for files in self._buckets.values()), default=0)


def _runs(files: Mapping[int, int]) -> int:
    return sum(count if level == 0 else count > 0 for level, count in files.items())
