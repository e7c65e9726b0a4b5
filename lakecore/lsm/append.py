"""Small-file compaction of append tables: which files to join. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from lakecore.lsm.options import AppendPolicy
from lakecore.metadata.data_file import DataFile

__all__ = ["pick_full_ordered", "pick_ordered", "pick_unordered"]

_MIN_BIN = 2
_FULL_MIN_FILES = 3

Files = tuple[DataFile, ...]


def pick_unordered(files: Iterable[DataFile], policy: AppendPolicy) -> tuple[Files, ...]:
    """Bins of small files of one partition, each to become few large ones; row order is free.

    Rule of the format: smallest first; a bin closes with two files and two target sizes; what remains is
    joined when there are at least `min_files` of them.
    """
    small = sorted(
        (file for file in files if file.file_size < policy.small_file_size),
        key=lambda file: (file.file_size, file.file_name),
    )
    bins: list[Files] = []
    current: list[DataFile] = []
    weight = 0
    for file in small:
        current.append(file)
        weight += file.file_size + policy.open_file_cost
        if len(current) >= _MIN_BIN and weight >= 2 * policy.target_file_size:
            bins.append(tuple(current))
            current, weight = [], 0
    if len(current) >= max(policy.min_files, _MIN_BIN):
        bins.append(tuple(current))
    return tuple(bins)


def pick_ordered(files: Iterable[DataFile], policy: AppendPolicy) -> Files | None:
    """The first stretch of consecutive files worth joining in a bucket that keeps row order, or None.

    Rule of the format: a window over files by sequence; enough files: join them; too many bytes: let the
    oldest go.
    """
    window: deque[DataFile] = deque()
    total = 0
    for file in sorted(files, key=lambda f: f.min_sequence_number):
        window.append(file)
        total += file.file_size
        if len(window) >= max(policy.min_files, _MIN_BIN):
            return tuple(window)
        if total >= 2 * policy.target_file_size:
            total -= window.popleft().file_size
    return None


def pick_full_ordered(files: Iterable[DataFile], policy: AppendPolicy) -> Files | None:
    """Every file of an ordered bucket behind its leading large ones, when small files prevail; else None."""
    queue = deque(sorted(files, key=lambda f: f.min_sequence_number))
    while queue and queue[0].file_size >= policy.small_file_size:
        queue.popleft()
    small = sum(file.file_size < policy.small_file_size for file in queue)
    if len(queue) < _FULL_MIN_FILES or small <= len(queue) - small:
        return None
    return tuple(queue)
