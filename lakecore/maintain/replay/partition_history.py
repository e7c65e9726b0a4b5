"""This module has the values of a replay of the expiry of partitions: its history, rules and result. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakecore.data_class import dataclass
from lakecore.maintain.partitions.plan import AgedPartition, ExpireRule

__all__ = [
    "PartitionCommit",
    "PartitionFile",
    "PartitionHistory",
    "PartitionReplay",
    "PartitionRules",
    "PartitionStep",
    "PartitionTotals",
]


@dataclass(frozen=True, slots=True)
class PartitionFile:
    """It is a data file: the hash of its name, the number of its partition, its bucket, bytes, rows, and when
    it was created by the clock of its writer (milliseconds, 0 if unknown).
    """

    name: int
    partition: int
    bucket: int
    bytes: int
    rows: int
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCommit:
    """It is what one commit changed. `removed` has hashes of names."""

    snapshot: int
    time_ms: int
    compacts: bool
    added: tuple[PartitionFile, ...]
    removed: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHistory:
    """These are the partitions that ever had files, by number, and the commits in order."""

    partitions: tuple[AgedPartition, ...]
    rows: tuple[bytes, ...]
    """These are the partitions as serialised rows, by the same numbers."""
    commits: tuple[PartitionCommit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRules:
    """These rules say which partitions expire, and when a run looks at them: at `times`, or after each commit
    (None). `offset_ms` returns how far the clock of the writers is ahead of UTC at a time.
    """

    rule: ExpireRule
    times: Sequence[int] | None
    offset_ms: Callable[[int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTotals:
    """These are sums over data files; `rows` counts a key once in each file that has it."""

    files: int = 0
    bytes: int = 0
    rows: int = 0

    def with_file(self, file: PartitionFile, sign: int = 1) -> PartitionTotals:
        """Return the sums with a file more, or with `sign` -1 with one less."""
        return PartitionTotals(
            files=self.files + sign,
            bytes=self.bytes + sign * file.bytes,
            rows=self.rows + sign * file.rows,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStep:
    """In this run partitions would have expired, whose numbers are in the order of their text."""

    time_ms: int
    snapshot: int
    """It would have been planned from this snapshot."""
    partitions: tuple[int, ...]
    removed: PartitionTotals
    uncertain: PartitionTotals
    """This part of the removed files may have had fewer rows, or none."""
    names: tuple[int, ...]
    """These are the hashes of the names of the removed files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReplay:
    """This is the result of a replay. `average_bytes` is over the time from the first commit to the end."""

    steps: tuple[PartitionStep, ...]
    partitions: int
    """So many partitions have files at the end."""
    live: PartitionTotals
    """These are the files at the end."""
    uncertain: PartitionTotals
    """These files are among the live ones, but nobody knows how many of their rows would be there."""
    average_bytes: int
    peak_bytes: int
    timeless: tuple[int, ...]
    """These partitions are there at the end, and their values stand for no time."""
    dropped: tuple[int, ...]
    """Commits of the history emptied these partitions before the replay did."""
    idle: tuple[int, ...]
    """These snapshots are of compactions that would have found only expired files, and committed nothing."""
    never: tuple[int, ...]
    """These are the hashes of the names of files that compactions made of expired ones alone: they would
    never have been.
    """
