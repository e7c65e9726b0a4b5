"""This module decides into how many units one large merge is cut by key ranges, and whether these cover the
keys without overlap. It finds the files of a merge that may be copied, because no other has keys among
theirs; such a merge is divided where one section ends and the next begins. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.format.parquet.splice.rules import is_large_file
from lakecore.lsm.sections import Section, largest_run, stretch_runs
from lakecore.metadata.key_order import comparable
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.read.file.key_range import KeyRange

__all__ = ["check_tiling", "divide", "has_large_base", "parts_of", "stretch_size", "unit_count"]

_UNITS_PER_CORE = 4
_LEAST_ALONE = 2
"""Copies pay where files that overlap no other, and may be copied, have half of the bytes."""


def unit_count(size: int, target_file_size: int, parallelism: int) -> int:
    """Return into how many units a merge of `size` input bytes is cut.

    A unit should yield about one target file; to use every core it may yield half of one, not less: smaller
    files would be merged again soon.
    """
    if parallelism <= 1:
        return 1
    halves = min(parallelism, 2 * size // target_file_size)
    return max(1, min(max(size // target_file_size, halves), _UNITS_PER_CORE * parallelism))


def check_tiling(ranges: Sequence[KeyRange]) -> None:
    """Raise ValueError unless every key is in exactly one of the ranges, given in order."""
    cuts = [after.low for after in ranges[1:]]
    open_ended = bool(ranges) and ranges[0].low is None and ranges[-1].high is None
    if not open_ended or cuts != [before.high for before in ranges[:-1]]:
        raise ValueError(f"ranges do not tile the key space: {ranges}")
    keys = [tuple(map(comparable, cut)) for cut in cuts if cut is not None]
    if len(keys) < len(cuts) or any(left >= right for left, right in pairwise(keys)):
        raise ValueError(f"ranges are not in key order: {ranges}")


def parts_of(stretch: tuple[Section, ...], mode: CopyMode) -> tuple[tuple[tuple[DataFile, ...], ...], ...]:
    """Return the parts of a merge of which files may be copied: sections of one file each, and what lies
    between them. They are empty where most bytes must be decoded.
    """
    if mode is CopyMode.NONE:
        return ()
    small_groups = mode is CopyMode.ALL
    alone = [section.files[0] for section in stretch if len(section.files) == 1]
    sizes = [
        file.file_size
        for file in alone
        if is_large_file(file.row_count, file.file_size, small_groups=small_groups)
    ]
    if sum(sizes) * _LEAST_ALONE < stretch_size(stretch):
        return ()
    groups = groupby(stretch, key=lambda section: len(section.files) == 1)
    return tuple(
        part
        for single, group in groups
        for part in ([section.runs for section in group] if single else [stretch_runs(tuple(group))])
    )


def has_large_base(runs: tuple[tuple[DataFile, ...], ...], mode: CopyMode) -> bool:
    """Return whether some row groups of a merge may be copied, as far as its files tell: one file of the run
    with most bytes can have two large ones.
    """
    number = None if mode is CopyMode.NONE else largest_run(runs)
    small_groups = mode is CopyMode.ALL
    return number is not None and any(
        is_large_file(file.row_count // 2, file.file_size // 2, small_groups=small_groups)
        for file in runs[number]
    )


def divide(stretch: tuple[Section, ...], least_size: int) -> list[tuple[Section, ...]]:
    """Return a stretch as consecutive ones of `least_size` bytes or more; no key is in two of them."""
    groups: list[tuple[Section, ...]] = []
    first = size = 0
    for number, section in enumerate(stretch, 1):
        size += stretch_size((section,))
        if size >= least_size:
            groups.append(stretch[first:number])
            first, size = number, 0
    if first < len(stretch):
        groups[-1:] = [(*(groups[-1] if groups else ()), *stretch[first:])]
    return groups


def stretch_size(stretch: tuple[Section, ...]) -> int:
    """Return the bytes of all files."""
    return sum(file.file_size for section in stretch for file in section.files)
