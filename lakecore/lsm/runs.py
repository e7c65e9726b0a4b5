"""This module defines the sorted runs of a bucket and the result of a picker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import DataFile

__all__ = ["LevelRun", "Pick", "age_order", "drops_deletes", "level_runs", "number_of_levels"]


@dataclass(frozen=True, slots=True)
class LevelRun:
    """This sorted run is one file of level 0 or all files of a higher level. `size` is in bytes."""

    level: int
    size: int
    files: tuple[DataFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Pick:
    """The decision to merge the newest `count` runs into `output_level`; `reason` names the rule that
    decided.
    """

    count: int
    output_level: int
    reason: str


def age_order(file: DataFile) -> tuple[int, int, int, str]:
    """Return the sort key of level-0 files: newest first (spec: highest sequence first, then lowest start,
    then age).
    """
    return -file.max_sequence_number, file.min_sequence_number, file.creation_time or 0, file.file_name


def level_runs(files: Iterable[DataFile]) -> tuple[LevelRun, ...]:
    """Return the runs of a bucket, newest first: level-0 files by age, then levels 1, 2, … that hold any."""
    by_level: dict[int, list[DataFile]] = {}
    for file in files:
        by_level.setdefault(file.level, []).append(file)
    fresh = sorted(by_level.pop(0, []), key=age_order)
    runs = [LevelRun(0, file.file_size, (file,)) for file in fresh]
    for level in sorted(by_level):
        members = tuple(by_level[level])
        runs.append(LevelRun(level, sum(file.file_size for file in members), members))
    return tuple(runs)


def number_of_levels(runs: Sequence[LevelRun], configured: int) -> int:
    """Return the levels of the tree: at least two, and enough for files on deeper levels than the options
    say.
    """
    return max(2, configured, 1 + max((run.level for run in runs), default=0))


def drops_deletes(runs: Sequence[LevelRun], output_level: int) -> bool:
    """Return whether a merge into `output_level` may drop retract rows, because nothing older can be below
    it.

    `runs`: all runs of the bucket, picked or not.
    """
    highest = max((run.level for run in runs), default=0)
    return output_level != 0 and output_level >= highest
