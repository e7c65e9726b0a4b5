"""Which small files of an append table are joined. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from lakecore.compact.work import Place, Strategy
from lakecore.lsm import append
from lakecore.lsm.options import AppendPolicy
from lakecore.metadata.data_file import DataFile
from lakecore.metadata.entries import ManifestEntries

__all__ = ["JoinPick", "JoinRequest", "plan_joins"]

_FULL_MIN_FILES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """How to pick. `ordered`: buckets keep the order of rows (fixed buckets); else files join freely."""

    strategy: Strategy
    policy: AppendPolicy
    ordered: bool


@dataclass(frozen=True, slots=True)
class JoinPick:
    """Files of one bucket that become fewer; their rows are read in this order."""

    place: Place
    files: tuple[DataFile, ...]


def plan_joins(entries: ManifestEntries, request: JoinRequest) -> tuple[JoinPick, ...]:
    """Joins in all buckets of live `entries`. FULL also joins fewer small files than `min_files`."""
    return tuple(
        JoinPick(place, files)
        for place, members in _buckets(entries, request)
        for files in _joins(members, request)
        if _pays(files, request.policy)
    )


def _joins(files: list[DataFile], request: JoinRequest) -> Iterable[tuple[DataFile, ...]]:
    policy = request.policy
    full = request.strategy is Strategy.FULL
    if not request.ordered:
        return append.pick_unordered(files, _full_policy(policy) if full else policy)
    found = (append.pick_full_ordered if full else append.pick_ordered)(files, policy)
    return () if found is None else (found,)


def _full_policy(policy: AppendPolicy) -> AppendPolicy:
    """Bins by their bytes alone, closed at one target size: no file is written twice in a run."""
    size = max(policy.target_file_size // 2, 1)
    return replace(policy, min_files=_FULL_MIN_FILES, open_file_cost=0, target_file_size=size)


def _pays(files: tuple[DataFile, ...], policy: AppendPolicy) -> bool:
    """Fewer files come out than go in, so that joining comes to an end whatever the options say."""
    return sum(file.file_size for file in files) <= policy.target_file_size * (len(files) - 1)


def _buckets(entries: ManifestEntries, request: JoinRequest) -> Iterator[tuple[Place, list[DataFile]]]:
    """Buckets with more than one file that may count. Files become objects only for these."""
    place = (entries.partition.astype(np.int64) << 32) | (entries.bucket.astype(np.int64) & 0xFFFFFFFF)
    wanted = np.ones(len(entries), bool)
    if not request.ordered:
        wanted = entries.file_size < request.policy.small_file_size
    lanes = np.flatnonzero(wanted)
    lanes = lanes[np.argsort(place[lanes], kind="stable")]
    starts = np.flatnonzero(np.diff(place[lanes])) + 1
    for members in np.split(lanes, starts):
        if len(members) > 1:
            part = entries.select(members)
            yield Place(part.partition_of(0), int(part.bucket[0]), int(part.total_buckets[0])), part.files()
