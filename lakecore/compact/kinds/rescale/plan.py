"""This module decides which files of which buckets become which: partitions, groups of buckets, sorted runs.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.scan.change_scanner import Deletions

__all__ = [
    "BucketGroup",
    "Layer",
    "RescalePick",
    "bucket_groups",
    "layers_of",
    "plan_rescale",
    "target_count",
]

_MOST_BUCKETS = 32_767


@dataclass(frozen=True, slots=True, kw_only=True)
class RescalePick:
    """This partition has another number of buckets than requested; the pick has the files of each bucket.

    `deletions` are by bucket and name of a file with deleted rows.
    """

    partition: bytes
    old_total: int
    new_total: int
    files: Mapping[int, tuple[DataFile, ...]]
    deletions: Mapping[tuple[int, str], DeletionFile]

    @property
    def all_files(self) -> tuple[DataFile, ...]:
        return tuple(file for files in self.files.values() for file in files)


@dataclass(frozen=True, slots=True)
class BucketGroup:
    """It has old buckets whose rows all move to the new buckets, which get no others."""

    old: tuple[int, ...]
    new: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """These files become one sorted run in each new bucket: they are at most one run of every old bucket.

    `runs`: (old bucket, its files in key order; of an append table all of them, in the order of rows).
    """

    level: int
    runs: tuple[tuple[int, tuple[DataFile, ...]], ...]


def target_count(table: str, options: TableOptions, requested_count: int | None) -> int:
    """Return the number of buckets that partitions get. Raises UnsupportedError, InvalidInputError."""
    mode = options.bucket_mode
    if mode not in (BucketMode.HASH_FIXED, BucketMode.POSTPONE):
        raise UnsupportedError(
            f"table {table}: option bucket={options.bucket}: bucket mode {mode.value} does not assign "
            "rows by a number of buckets; only tables with fixed or postponed buckets can be rescaled"
        )
    if options.row_tracking:
        raise UnsupportedError(
            f"table {table}: option row-tracking.enabled=true: this release cannot move row ids to other "
            "buckets; overwrite the partition instead"
        )
    if requested_count is None and mode is BucketMode.POSTPONE:
        raise InvalidInputError(
            f"table {table} has no number of buckets of its own (bucket=-2); give one with --bucket-num"
        )
    count = options.bucket if requested_count is None else requested_count
    if not 0 < count <= _MOST_BUCKETS:
        raise InvalidInputError(f"table {table}: bucket number {count} must be 1 to {_MOST_BUCKETS}")
    return count


def plan_rescale(entries: ManifestEntries, total: int, deletions: Deletions) -> tuple[RescalePick, ...]:
    """Return the partitions of live `entries` that have another number of buckets than `total`. Raises
    UnsupportedError for one that has several numbers. Rows that wait for a bucket do not count.

    Cost: every file of these partitions becomes an object.
    """
    entries = entries.select(entries.bucket >= 0)
    codes = np.unique(entries.partition[entries.total_buckets != total])
    picks = []
    for code in codes.tolist():
        part = entries.select(entries.partition == code)
        totals = np.unique(part.total_buckets).tolist()
        partition = part.partition_of(0)
        if len(totals) > 1 or totals[0] < 1:
            raise UnsupportedError(
                f"a partition has files for different numbers of buckets, {totals}, so rows "
                "of one key may be in two buckets; overwrite the partition"
            )
        files: dict[int, list[DataFile]] = {}
        for bucket, file in zip(part.bucket.tolist(), part.files(), strict=True):
            files.setdefault(bucket, []).append(file)
        places = ((bucket, file.file_name) for bucket, bucket_files in files.items() for file in bucket_files)
        vectors = {
            (b, name): bucket_files
            for b, name in places
            if (bucket_files := deletions.get((partition, b, name)))
        }
        picks.append(
            RescalePick(
                partition=partition,
                old_total=totals[0],
                new_total=total,
                files={bucket: tuple(bucket_files) for bucket, bucket_files in sorted(files.items())},
                deletions=vectors,
            )
        )
    return tuple(picks)


def bucket_groups(old: int, new: int, cuts: int = 1) -> tuple[BucketGroup, ...]:
    """Return groups of buckets. Rule of the format: the bucket is a number of the row modulo the count,
    whatever the function; so rows of a bucket stay within one residue of the greatest common divisor.

    `cuts`: into how many parts the new buckets of each group are cut, as far as there are so many: each part
    reads all old buckets of its group.
    """
    step = gcd(old, new)
    groups = []
    for residue in range(step):
        targets = tuple(range(residue, new, step))
        parts = min(max(cuts, 1), len(targets))
        shares = (targets[number::parts] for number in range(parts))
        groups += [BucketGroup(tuple(range(residue, old, step)), share) for share in shares]
    return tuple(groups)


def layers_of(
    files: Mapping[int, Sequence[DataFile]], buckets: Sequence[int], key_of: object, *, keyed: bool
) -> tuple[Layer, ...]:
    """Return the sorted runs of `buckets`, of which those that are merged together are side by side.

    Runs of a level above 0 go together; of level 0, the newest file of each bucket, then the second newest,
    and so on: rows of a key are in one old bucket only, so that age decides as before.
    """
    layers: dict[tuple[int, int], list[tuple[int, tuple[DataFile, ...]]]] = {}
    for bucket in buckets:
        for place, run in _runs(files.get(bucket, ()), key_of, keyed=keyed):
            layers.setdefault(place, []).append((bucket, run))
    return tuple(Layer(level, tuple(runs)) for (level, _), runs in sorted(layers.items()))


def _runs(
    files: Sequence[DataFile], key_of: object, *, keyed: bool
) -> Iterator[tuple[tuple[int, int], tuple[DataFile, ...]]]:
    """Yield sorted runs of one bucket by level and place within it."""
    if not keyed:
        ordered = sorted(files, key=lambda file: (file.min_sequence_number, file.file_name))
        if ordered:
            yield (0, 0), tuple(ordered)
        return
    assert callable(key_of)
    fresh = [file for file in files if file.level == 0]
    fresh.sort(key=lambda file: (-file.max_sequence_number, -file.min_sequence_number, file.file_name))
    for number, file in enumerate(fresh):
        yield (0, number), (file,)
    for level in sorted({file.level for file in files if file.level > 0}):
        run = sorted((file for file in files if file.level == level), key=lambda file: key_of(file.min_key))
        yield (level, 0), tuple(run)
