"""This module finds sections (groups of files whose key ranges overlap, directly or in a chain) and their
sorted runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappush, heapreplace
from typing import Any

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import DataFile

__all__ = ["KeyOf", "Section", "largest_run", "run_numbers", "sections", "stretch_runs"]

KeyOf = Callable[[bytes], Any]
"""It turns a serialised key into a value that compares as keys do."""


@dataclass(frozen=True, slots=True)
class Section:
    """These are files of one range of keys. Each run is disjoint and in key order; runs have no order."""

    runs: tuple[tuple[DataFile, ...], ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for run in self.runs for file in run)


@dataclass(frozen=True, slots=True)
class _FileRange:
    low: Any
    high: Any
    file: DataFile


def sections(files: Iterable[DataFile], key_of: KeyOf) -> tuple[Section, ...]:
    """Partition files into sections in key order, each with as few runs as a greedy assignment finds.

    Rule of the format: files by (min key, max key); a section ends where the next min key is above every max
    key so far. Its runs are those of `run_numbers`.
    """
    ranged = [_FileRange(key_of(file.min_key), key_of(file.max_key), file) for file in files]
    ranged.sort(key=lambda r: (r.low, r.high))
    result: list[Section] = []
    members: list[_FileRange] = []
    end: Any = None
    for item in ranged:
        if members and item.low > end:
            result.append(_section(members))
            members = []
        end = max(end, item.high) if members else item.high
        members.append(item)
    if members:
        result.append(_section(members))
    return tuple(result)


def run_numbers(ranges: Iterable[tuple[Any, Any]]) -> list[int]:
    """Return the run of each file of a section, from the files' (lowest key, highest key) in this order.

    Rule of the format: a file continues the run that ends first, when that end lies below its lowest key.
    """
    ends: list[tuple[Any, int]] = []
    numbers = []
    for low, high in ranges:
        if ends and low > ends[0][0]:
            number = ends[0][1]
            heapreplace(ends, (high, number))
        else:
            number = len(ends)
            heappush(ends, (high, number))
        numbers.append(number)
    return numbers


def _section(members: list[_FileRange]) -> Section:
    numbers = run_numbers((item.low, item.high) for item in members)
    runs: list[list[DataFile]] = [[] for _ in range(max(numbers) + 1)]
    for item, number in zip(members, numbers, strict=True):
        runs[number].append(item.file)
    return Section(tuple(tuple(run) for run in runs))


def stretch_runs(stretch: tuple[Section, ...]) -> tuple[tuple[DataFile, ...], ...]:
    """Return sections in key order as runs over all of them, oldest first: run i joins run i of each
    section.
    """
    aged = [sorted(section.runs, key=_newest) for section in stretch]
    width = max(map(len, aged))
    return tuple(tuple(file for runs in aged if i < len(runs) for file in runs[i]) for i in range(width))


def _newest(run: tuple[DataFile, ...]) -> int:
    return max(file.max_sequence_number for file in run)


def largest_run(runs: tuple[tuple[DataFile, ...], ...]) -> int | None:
    """Return the number of the run that has half of the bytes of all or more; None: no run has."""
    sizes = [sum(file.file_size for file in run) for run in runs]
    number = max(range(len(runs)), key=sizes.__getitem__)
    return number if 2 * sizes[number] >= sum(sizes) else None
