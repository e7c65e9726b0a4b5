"""This module has the report of a replay. Sizes are in bytes, times in milliseconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from lakecore.data_class import dataclass
from lakecore.jobs.runner.report import JobReport
from lakecore.maintain.replay.plan import HolderBytes, StoredBytes

__all__ = [
    "CompactionFigures",
    "CompactionRun",
    "ExpiryFigures",
    "ExpiryRun",
    "PartitionFigures",
    "PartitionRun",
    "WhatIfReport",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryRun:
    """This run would have removed something."""

    time_ms: int
    first_snapshot: int | None
    last_snapshot: int | None
    tags: tuple[str, ...]
    changelogs: tuple[int, ...]
    """These are the ids of changelogs that had outlived their snapshots."""
    files: int
    bytes: int
    blocker: str
    """It says what kept the next snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryFigures:
    """These are the figures of one replay of an expiry. They are exact for the files that the snapshots,
    tags and changelogs of today need.
    """

    variant: str
    """It is one of `no expiry`, `the table's options` and `the options of the question`."""
    options: Mapping[str, str]
    """These are the limits as options of the table."""
    expired_snapshots: int
    expired_changelogs: int
    removed_files: int
    removed_bytes: int
    snapshots: int
    """This is the number of snapshots at the end."""
    files: int
    bytes: int
    average_bytes: int
    """This is the average over the whole time, from which the cost of storage follows."""
    peak_bytes: int
    seconds: float
    """This is how long all runs take in one process, by the forecast of `expire-snapshots`: an estimate."""
    blocker: str
    """It says what keeps the oldest snapshot at the end."""
    holdings: tuple[HolderBytes, ...]
    impossible_tags: tuple[str, ...]
    """The snapshots of these tags would have expired before the tags were created."""
    runs: tuple[ExpiryRun, ...]
    points: tuple[StoredBytes, ...]
    """There are 200 points at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRun:
    """This compaction would have had picks. Bytes are exact where `exact_picks` are all."""

    time_ms: int
    snapshot: int
    """It would have been planned from this snapshot."""
    picks: int
    exact_picks: int
    """These picks are certain: their buckets are as they really were."""
    read_bytes: int
    written_bytes: int
    """This is an estimate."""
    runs_before: int
    """All buckets together had so many sorted runs; without keys so many files."""
    runs_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFigures:
    """These are the figures of one replay of compactions, or of those of the history."""

    variant: str
    """It is one of `as it was`, `the table's options` and `the options of the question`."""
    strategy: str
    options: Mapping[str, str]
    compactions: int
    picks: int
    exact_picks: int
    read_bytes: int
    written_bytes: int
    """This is an estimate, but for what was."""
    ingested_bytes: int
    """This is what writers added after the first snapshot."""
    write_amplification: float | None
    """All bytes that were written, divided by those of the writers; None means that writers added nothing."""
    average_runs: float
    """Over the time, a reader merges so many sorted runs of a bucket; without keys it reads so many files."""
    most_runs: int
    files: int
    """The table has so many files at the end."""
    seconds: float | None
    """This is how long the compactions take in one process, by their forecast; None for what was."""
    resets: int
    """So many times a bucket was put back to what it really was (see `lakecore.jobs.what_if.merges`)."""
    runs: tuple[CompactionRun, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRun:
    """In this run partitions would have expired."""

    time_ms: int
    snapshot: int
    """It would have been planned from this snapshot."""
    partitions: tuple[str, ...]
    """They are in the order of their text, as in `dt=2024-01-01,hh=2`."""
    files: int
    bytes: int
    rows: int
    uncertain_bytes: int
    """This part is of files of which the history does not show how many rows would still have been there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFigures:
    """These are the figures of one replay of the expiry of partitions. They count data files of the newest
    snapshot, and `rows` the rows in them: a key counts once in each file that has it.
    """

    variant: str
    """It is one of `as it was`, `the table's options` and `the options of the question`."""
    options: Mapping[str, str]
    expired: int
    """So many partitions would have expired; one that got rows later counts again when it expires again."""
    removed_files: int
    removed_bytes: int
    removed_rows: int
    partitions: int
    """So many partitions have files at the end."""
    files: int
    bytes: int
    rows: int
    uncertain_bytes: int
    """This is the upper bound of how much `bytes` and `removed_bytes` together are too large (see
    `lakecore.maintain.replay.partition_plan`).
    """
    average_bytes: int
    """This is the average over the whole time of the bytes that the newest snapshot has."""
    peak_bytes: int
    runs: tuple[PartitionRun, ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class WhatIfReport(JobReport):
    """This is the result of a replay, which changed nothing."""

    options: Mapping[str, str] = field(default_factory=dict)
    """These options were asked about."""
    every_ms: int | None = None
    """Maintenance runs so often; None means after each commit."""
    start_ms: int = 0
    """This is when the oldest snapshot was committed."""
    until_ms: int = 0
    expiry: tuple[ExpiryFigures, ...] = ()
    """There is one for each variant."""
    partitions: tuple[PartitionFigures, ...] = ()
    """There is one for each variant."""
    compaction: tuple[CompactionFigures, ...] = ()
    """There is one for each variant."""
    assumptions: tuple[str, ...] = ()
    """These sentences say what the replay cannot know."""
    notes: tuple[str, ...] = ()
