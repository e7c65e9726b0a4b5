"""This module decides which files of an append table are rewritten: small ones, and those with deleted rows.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lakecore.compact.engine.work import Place, Strategy
from lakecore.data_class import dataclass
from lakecore.lsm import append
from lakecore.lsm.options import AppendPolicy
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.scan.change_scanner import Deletions

__all__ = ["JoinPick", "JoinRequest", "plan_joins"]

_FULL_MIN_FILES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """The rules for picks. If `ordered`, buckets keep the order of rows (fixed buckets); else files are
    joined freely.
    """

    strategy: Strategy
    policy: AppendPolicy
    ordered: bool


@dataclass(frozen=True, slots=True)
class JoinPick:
    """Files of one bucket that become fewer; their rows are read in this order, without the deleted ones.

    `deletions` are in the order of `files`, None for a file without deleted rows. `columns` are those of the
    new file; None for all of the table. `blobs` are groups of blob files, each of which becomes one; there
    may be no more.
    """

    place: Place
    files: tuple[DataFile, ...]
    deletions: tuple[DeletionFile | None, ...]
    columns: tuple[str, ...] | None = None
    blobs: tuple[tuple[DataFile, ...], ...] = ()

    @property
    def newest_schema(self) -> int:
        """Return the highest schema id among the files whose rows the pick may read."""
        return max(file.schema_id for files in (self.files, *self.blobs) for file in files)


def plan_joins(entries: ManifestEntries, request: JoinRequest, deletions: Deletions) -> tuple[JoinPick, ...]:
    """Return the picks in all buckets of live `entries`.

    Files with deleted rows that are small, or of which more than the allowed share is deleted, lose them.
    FULL rids every file of deleted rows, and also joins fewer small files than `min_files`.
    """
    return tuple(
        JoinPick(bucket.place, files, tuple(bucket.deletions.get(file.file_name) for file in files))
        for bucket in _buckets(entries, request, deletions)
        for files in bucket.joins(request)
    )


@dataclass(frozen=True, slots=True)
class _Bucket:
    """The files of a bucket that may count, and the deletion vectors among them by file name."""

    place: Place
    files: list[DataFile]
    deletions: Mapping[str, DeletionFile]

    def joins(self, request: JoinRequest) -> Iterator[tuple[DataFile, ...]]:
        policy = request.policy
        full = request.strategy is Strategy.FULL
        for files in (
            self._ordered_picks(policy, full=full) if request.ordered else self._free(policy, full=full)
        ):
            if any(file.file_name in self.deletions for file in files) or _pays(files, policy):
                yield files

    def _ordered_picks(self, policy: AppendPolicy, *, full: bool) -> Iterable[tuple[DataFile, ...]]:
        if full:
            pick = append.pick_full_ordered(self.files, policy, self.deletions.keys())
        else:
            pick = append.pick_ordered(self.files, policy)
        return () if pick is None else (pick,)

    def _free(self, policy: AppendPolicy, *, full: bool) -> Iterator[tuple[DataFile, ...]]:
        groups = {name: deletion.path for name, deletion in self.deletions.items()}
        if full and groups:  # all in one go, so that no row is written twice
            groups = {file.file_name: groups.get(file.file_name, file.file_name) for file in self.files}
        policy = _full_policy(policy) if full else policy
        yield from append.pick_deleted((f for f in self.files if f.file_name in groups), groups, policy)
        yield from append.pick_unordered((f for f in self.files if f.file_name not in groups), policy)


def _full_policy(policy: AppendPolicy) -> AppendPolicy:
    """Return a policy for bins by their bytes alone, closed at one target size: no file is written twice in a
    run.
    """
    size = max(policy.target_file_size // 2, 1)
    return replace(policy, min_files=_FULL_MIN_FILES, open_file_cost=0, target_file_size=size)


def _pays(files: tuple[DataFile, ...], policy: AppendPolicy) -> bool:
    """Return whether fewer files are written than read, so that joining ends whatever the options are."""
    return sum(file.file_size for file in files) <= policy.target_file_size * (len(files) - 1)


def _buckets(entries: ManifestEntries, request: JoinRequest, deletions: Deletions) -> Iterator[_Bucket]:
    """Yield buckets with files worth rewriting, or more than one that may be. Only these files become
    objects.
    """
    place = (entries.partition.astype(np.int64) << 32) | (entries.bucket.astype(np.int64) & 0xFFFFFFFF)
    vectors = _vectors(entries, deletions)
    small = np.ones(len(entries), bool)
    if not request.ordered:
        small = entries.file_size < request.policy.small_file_size
        small |= _much_deleted(entries, vectors, request)
    lanes = np.flatnonzero(small)
    lanes = lanes[np.argsort(place[lanes], kind="stable")]
    starts = np.flatnonzero(np.diff(place[lanes])) + 1
    groups = []
    for members in np.split(lanes, starts):
        members_with_vectors = (
            [(lane, vectors[lane]) for lane in members.tolist() if lane in vectors] if vectors else []
        )
        if len(members) > 1 or members_with_vectors:
            groups.append((members, {vector.place.data_file: vector for _, vector in members_with_vectors}))
    file_groups = entries.files_of(members for members, _ in groups)
    for (members, marked), files in zip(groups, file_groups, strict=True):
        first = int(members[0])
        total = int(entries.total_buckets[first])
        yield _Bucket(Place(entries.partition_of(first), int(entries.bucket[first]), total), files, marked)


def _vectors(entries: ManifestEntries, deletions: Deletions) -> dict[int, DeletionFile]:
    """Return the deletion vectors by the place of their file among `entries`."""
    if not deletions:
        return {}
    names = [name.decode() for name in entries.names()]
    partitions, buckets = entries.partition.tolist(), entries.bucket.tolist()
    vectors = (
        (lane, deletions.get((entries.partitions[code], bucket, name)))
        for lane, (code, bucket, name) in enumerate(zip(partitions, buckets, names, strict=True))
    )
    return {lane: vector for lane, vector in vectors if vector is not None}


def _much_deleted(entries: ManifestEntries, vectors: Mapping[int, DeletionFile], request: JoinRequest) -> Any:
    """Return which files have many deleted rows. Rule of the format: more than a share of the rows is
    deleted, or it is not known how many.
    """
    out = np.zeros(len(entries), bool)
    for lane, vector in vectors.items():
        deleted = vector.place.cardinality
        limit = int(entries.row_count[lane]) * request.policy.delete_ratio
        out[lane] = request.strategy is Strategy.FULL or deleted is None or deleted > limit
    return out
