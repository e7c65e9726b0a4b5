"""This module detects whether the changes of a commit still fit the current state of the table. Pure: values
in, conflicts out.

The rules of the format, in its order: (1) the bucket count of a partition changes only by overwriting it; (2)
no file is added twice; (3) a file to be removed still exists; (4) above level 0 the files of a bucket have
disjoint key ranges per level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import EntryKind, FileIdentity, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import identity_groups, identity_hash, live_entries
from lakecore.metadata.options import POSTPONE_BUCKET
from lakecore.metadata.snapshot import CommitKind

__all__ = [
    "Conflict",
    "KeyOf",
    "changed_bucket_counts",
    "find_conflicts",
    "find_missing",
    "mixed_bucket_counts",
    "waiting_files",
]

Ints = npt.NDArray[Any]
KeyOf = Callable[[bytes], Any]
"""The function maps a serialised key to a value that compares in the key order of the format."""

_NO_BUCKET = -1


@dataclass(frozen=True, slots=True)
class Conflict:
    """One reason why a commit does not fit, and the file of the commit that causes it."""

    reason: str
    partition: bytes
    bucket: int
    """It is -1 where the whole partition or table is meant."""
    file_name: str


def find_conflicts(
    base: ManifestEntries, delta: ManifestEntries, kind: CommitKind, key_of: KeyOf | None
) -> tuple[Conflict, ...]:
    """Return all conflicts between `delta` and the live entries `base` of at least the partitions it touches.

    `key_of` is None for tables without a primary key, which have no levels. Cost: vectorised over `base`;
    rows are made only for the files of `delta` and for the files of the buckets and levels that it adds to.
    """
    combined = ManifestEntries.concat([base, delta])
    split = len(base)
    conflicts: list[Conflict] = []
    if kind is not CommitKind.OVERWRITE:
        conflicts += _bucket_counts(combined, split)
    identities = list(_identities(combined, split))
    conflicts += identities
    if key_of is not None and not identities:
        conflicts += _overlaps(combined, split, key_of)
    return tuple(conflicts)


def changed_bucket_counts(
    base: ManifestEntries, delta: ManifestEntries, default: int | None = None
) -> tuple[Conflict, ...]:
    """Check rule 1 alone: return files of `delta` that were written for another bucket count than `base`
    has. `default` is the count of partitions without files; None: these may get any.
    """
    return tuple(_bucket_counts(ManifestEntries.concat([base, delta]), len(base), default))


def mixed_bucket_counts(base: ManifestEntries, delta: ManifestEntries) -> tuple[Conflict, ...]:
    """Return partitions that have files of several bucket counts after `delta`, with one file of each
    count.
    """
    after = live_entries(ManifestEntries.concat([base, delta]), strict=False)
    after = after.select((after.bucket >= 0) & (after.total_buckets > 0))
    pairs = (after.partition.astype(np.int64) << 32) | after.total_buckets
    distinct, first = np.unique(pairs, return_index=True)
    codes, counts = np.unique(distinct >> 32, return_counts=True)
    mixed = first[np.isin(distinct >> 32, codes[counts > 1])]
    reason = "another commit wrote to the partition with another number of buckets"
    return tuple(_conflict(reason, entry) for entry in after.rows(mixed))


def waiting_files(delta: ManifestEntries) -> tuple[Conflict, ...]:
    """Return new files whose rows wait for a bucket: a table with fixed buckets would never give them one,
    and reads would return them beside other rows of their keys.
    """
    reason = "its rows wait for a bucket, but the table has fixed buckets now"
    waiting = (delta.kind == EntryKind.ADD) & (delta.bucket == POSTPONE_BUCKET)
    return tuple(_conflict(reason, entry) for entry in delta.rows(np.flatnonzero(waiting)))


def find_missing(base: ManifestEntries, required_files: ManifestEntries) -> tuple[Conflict, ...]:
    """Return files of `required_files` that are not among the live entries `base`. It works on arrays."""
    if not len(required_files):
        return ()
    split = len(base)
    combined = ManifestEntries.concat([base, required_files])  # hashes hold codes of partitions
    hashes = identity_hash(combined)
    here = np.flatnonzero(np.isin(hashes[:split], hashes[split:]))
    present = {entry.identity for entry in combined.rows(here)}
    reason = "the file in which old rows were looked up was replaced by another commit"
    return tuple(_conflict(reason, entry) for entry in required_files.rows() if entry.identity not in present)


def _bucket_counts(combined: ManifestEntries, split: int, default: int | None = None) -> Iterator[Conflict]:
    """Check rule 1. Counts of 0 and below are no counts (dynamic, unaware and postponed buckets)."""
    partition, total = combined.partition, combined.total_buckets
    packed = np.unique((partition[:split].astype(np.int64) << 32) | np.maximum(total[:split], 0))
    before = {code >> 32: code & 0xFFFFFFFF for code in packed.tolist() if code & 0xFFFFFFFF}
    codes: set[tuple[int, int]] = set()
    for lane in range(split, len(combined)):
        code, count = int(partition[lane]), int(total[lane])
        expected_count = before.setdefault(code, default or count) if count > 0 else count
        if expected_count != count and (code, count) not in codes:
            codes.add((code, count))
            reason = f"the partition has {expected_count} buckets, but the commit was made for {count}"
            yield _conflict(reason, combined.row(lane))


def _identities(combined: ManifestEntries, split: int) -> Iterator[Conflict]:
    """Check rules 2 and 3 over the entries of the identities that the delta names. Those that it only adds,
    or removes from the base once, have no conflict: rows are made of the others.
    """
    lanes = _doubtful(combined, split)
    present: set[FileIdentity] = set()
    for lane, entry in zip(lanes.tolist(), combined.rows(lanes), strict=True):
        if lane < split:
            present.add(entry.identity)
        elif entry.kind is EntryKind.ADD:
            if entry.identity in present:
                yield _conflict("the file is in the table already", entry)
            present.add(entry.identity)
        elif entry.identity in present:
            present.discard(entry.identity)
        else:
            yield _conflict("the file to be replaced was replaced by another commit", entry)


def _doubtful(combined: ManifestEntries, split: int) -> Ints:
    """Return the lanes of identities that may have a conflict, in order."""
    lanes, group = identity_groups(combined)
    is_delete = combined.kind == EntryKind.DELETE
    doubtful = is_delete.copy()
    doubtful[:split] = False
    if len(lanes):
        count = int(group.max()) + 1
        first = np.full(count, len(combined), np.int64)
        np.minimum.at(first, group, lanes)
        last = np.zeros(count, np.int64)
        np.maximum.at(last, group, lanes)
        in_base = last < split
        is_removed_once = (np.bincount(group, minlength=count) == 2) & (first < split) & is_delete[last]
        doubtful[lanes] = ~(in_base | is_removed_once)[group]
    return np.flatnonzero(doubtful)


def _overlaps(combined: ManifestEntries, split: int, key_of: KeyOf) -> Iterator[Conflict]:
    """Check rule 4 in the buckets and levels that the delta adds files to."""
    place = _places(combined)
    added = (combined.kind == EntryKind.ADD) & (combined.level > 0)
    added[:split] = False
    lanes = np.isin(place, place[added])
    ours = {combined.partition_of(i) + entry.file.file_name.encode() for i, entry in _rows(combined, added)}
    after = live_entries(combined.select(lanes), strict=False).rows()
    for _, group in groupby(sorted(after, key=_place), key=_place):
        files = sorted(((key_of(entry.file.min_key), entry) for entry in group), key=lambda pair: pair[0])
        for (_, left), (low, right) in pairwise(files):
            if not key_of(left.file.max_key) < low:
                yield from _overlap(left, right, ours)


def _overlap(left: ManifestEntry, right: ManifestEntry, ours: set[bytes]) -> Iterator[Conflict]:
    own = [e for e in (left, right) if e.partition + e.file.file_name.encode() in ours]
    reason = (
        f"the key ranges of {left.file.file_name} and {right.file.file_name} overlap on level "
        f"{left.file.level}"
    )
    for entry in own or (left, right):
        yield _conflict(reason, entry)


def _rows(entries: ManifestEntries, mask: Any) -> Iterator[tuple[int, ManifestEntry]]:
    lanes = np.flatnonzero(mask)
    return zip(lanes.tolist(), entries.rows(lanes), strict=True)


def _places(entries: ManifestEntries) -> Any:
    """Return one number per (partition, bucket, level): partition codes below 2^23, levels below 2^8."""
    bucket = entries.bucket.astype(np.int64) & 0xFFFFFFFF
    return (entries.partition.astype(np.int64) << 40) | (bucket << 8) | entries.level


def _place(entry: ManifestEntry) -> tuple[bytes, int, int]:
    return entry.partition, entry.bucket, entry.file.level


def _conflict(reason: str, entry: ManifestEntry) -> Conflict:
    return Conflict(reason, entry.partition, entry.bucket, entry.file.file_name)


def describe(conflicts: Sequence[Conflict], limit: int = 3) -> str:
    """Return the first `limit` conflicts as text for an error message."""
    reasons = [f"{_where(conflict)}: {conflict.reason}" for conflict in conflicts[:limit]]
    more = len(conflicts) - limit
    return "; ".join(reasons) + (f"; and {more} more" if more > 0 else "")


def _where(conflict: Conflict) -> str:
    bucket = "" if conflict.bucket == _NO_BUCKET else f" in bucket {conflict.bucket}"
    return f"{conflict.file_name}{bucket}"
