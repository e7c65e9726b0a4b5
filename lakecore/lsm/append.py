"""This module has the small-file compaction of append tables: which files are joined, and which are
rewritten without deleted rows. It is pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping

from lakecore.lsm.options import AppendPolicy
from lakecore.metadata.manifest.data_file import DataFile

__all__ = ["pick_deleted", "pick_full_ordered", "pick_ordered", "pick_unordered"]

_MIN_BIN = 2
_FULL_MIN_FILES = 3

Files = tuple[DataFile, ...]


def pick_unordered(files: Iterable[DataFile], policy: AppendPolicy) -> tuple[Files, ...]:
    """Return bins of small files of one partition, each of which becomes few large ones; row order is
    free.

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


def pick_deleted(
    files: Iterable[DataFile], groups: Mapping[str, str], policy: AppendPolicy
) -> tuple[Files, ...]:
    """Return bins of files of one partition that have deleted rows; every file is in one.

    `groups`: file name -> the index file with its deletion vector. Rule of the format: files that share an
    index file stay together; smallest groups first; bins close as in `pick_unordered`, the rest is one
    too.
    """
    grouped: dict[str, list[DataFile]] = {}
    for file in sorted(files, key=lambda file: (file.file_size, file.file_name)):
        grouped.setdefault(groups[file.file_name], []).append(file)
    bins: list[Files] = []
    current: list[DataFile] = []
    weight = 0
    for group in sorted(grouped.values(), key=lambda group: sum(file.file_size for file in group)):
        current += group
        weight += sum(file.file_size + policy.open_file_cost for file in group)
        if len(current) >= _MIN_BIN and weight >= 2 * policy.target_file_size:
            bins.append(tuple(current))
            current, weight = [], 0
    return (*bins, tuple(current)) if current else tuple(bins)


def pick_ordered(files: Iterable[DataFile], policy: AppendPolicy) -> Files | None:
    """Return the first consecutive files worth joining in a bucket that keeps row order, or None.

    Rule of the format: a window slides over files by sequence; enough files are joined; with too many
    bytes the oldest file leaves the window.
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


def pick_full_ordered(
    files: Iterable[DataFile], policy: AppendPolicy, deleted: Collection[str] = ()
) -> Files | None:
    """Return every file of an ordered bucket behind its leading large ones if small files prevail; else
    None.

    `deleted`: names of files with deleted rows. Large files before and after all of these stay, and the
    others are always picked.
    """

    def stays(file: DataFile) -> bool:
        return file.file_size >= policy.small_file_size and file.file_name not in deleted

    queue = deque(sorted(files, key=lambda f: f.min_sequence_number))
    while queue and stays(queue[0]):
        queue.popleft()
    if any(file.file_name in deleted for file in queue):
        while stays(queue[-1]):
            queue.pop()
        return tuple(queue)
    small = sum(file.file_size < policy.small_file_size for file in queue)
    if len(queue) < _FULL_MIN_FILES or small <= len(queue) - small:
        return None
    return tuple(queue)
