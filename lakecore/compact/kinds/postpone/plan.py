"""This module decides which postponed files go into real buckets, and in which order. Pure.

Spec: rows of one writer are replayed in the order in which they were written: by creation time, and for one
writer by the number in the file's name. Where rows are ordered by snapshots (sequence.snapshot-ordering),
these count first. A partition has as many buckets as its real files say, else as many as the options give it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import POSTPONE_BUCKET

__all__ = ["PostponedFiles", "cut", "plan_partitions", "real_totals"]

_UNIT_ROWS = 4_000_000
_LEAST_ROWS = 1_000_000
_NAME = re.compile(r"-s-(?P<writer>\d+)-w-(?P<unique>.+)-(?P<number>\d+)\.")


@dataclass(frozen=True, slots=True)
class PostponedFiles:
    """These are the postponed files of one partition (a serialised row), in the order of their rows."""

    partition: bytes
    total_buckets: int
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.row_count for file in self.files)


def plan_partitions(
    live: ManifestEntries, buckets_for: Callable[[int], int], *, snapshot_ordering: bool = False
) -> tuple[PostponedFiles, ...]:
    """Return the postponed files of each partition that has some, in order of partitions. `live` are all live
    files.

    `buckets_for`: the number of buckets of a new partition with so many rows. `snapshot_ordering`: the
    sequence numbers of files are those of their snapshots.
    """
    totals = real_totals(live)
    entries = live.select(live.bucket == POSTPONE_BUCKET)
    files: dict[bytes, list[DataFile]] = {}
    for entry in entries.rows():
        files.setdefault(entry.partition, []).append(entry.file)
    return tuple(
        PostponedFiles(
            partition,
            totals.get(partition) or buckets_for(sum(file.row_count for file in files[partition])),
            tuple(sorted(files[partition], key=partial(_age, snapshot_ordering=snapshot_ordering))),
        )
        for partition in sorted(files)
    )


def cut(postponed: PostponedFiles, idle: int) -> int:
    """Return the number of units: each takes the buckets with one remainder. `idle` is the number of cores
    that no other partition uses. Every unit decodes all files, so a partition is cut only if it is large.
    """
    parallelism = max(-(-postponed.rows // _UNIT_ROWS), min(idle, postponed.rows // _LEAST_ROWS))
    return max(1, min(postponed.total_buckets, parallelism))


def real_totals(live: ManifestEntries) -> Mapping[bytes, int]:
    """Return the number of buckets of each partition that has some."""
    real = live.select(live.total_buckets > 0)
    codes = zip(real.partition.tolist(), real.total_buckets.tolist(), strict=True)
    return {real.partitions[code]: total for code, total in dict.fromkeys(codes)}


def _age(file: DataFile, *, snapshot_ordering: bool) -> tuple[int, int, int, str, int]:
    number = file.min_sequence_number if snapshot_ordering else 0
    match = _NAME.search(file.file_name)
    if match is None:
        return number, file.creation_time or 0, -1, file.file_name, 0
    return number, file.creation_time or 0, int(match["writer"]), match["unique"], int(match["number"])
