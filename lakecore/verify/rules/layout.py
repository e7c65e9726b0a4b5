"""This module checks the place of the files of a pick among those that stay, derived from all live files
of the bucket. It is pure.

A proof of rows does not see it. In a primary-key table the files of a level above 0 have no key in common,
and rows of lower levels are newer than those of the same key above: reads and later merges depend on that. In
an append table with buckets rows keep their order, and a file's rows come after those of files before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import pairwise

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.verify.rules.drop_licence import KeyOf, overlapping

__all__ = ["OutputRange", "check_levels", "check_row_order"]


@dataclass(frozen=True, slots=True)
class OutputRange:
    """These files become one stream of new files of `level`, anywhere between their first and last key."""

    files: Sequence[DataFile]
    level: int


def check_levels(
    pick: str,
    live: Sequence[DataFile],
    replaced: Collection[DataFile],
    moved: Sequence[tuple[DataFile, DataFile]],
    stretches: Sequence[OutputRange],
    key_of: KeyOf,
) -> None:
    """Raise ProofError where the files that a pick creates or moves would share keys with a file of their
    level, or older rows of their keys would be left below them.

    `live` are all files of the bucket; `moved` are files before and after. Units that divide one stretch may
    each give it. Cost: a comparison or two a file.
    """
    moves: list[tuple[tuple[DataFile, ...], int]] = [((before,), after.level) for before, after in moved]
    whole = {frozenset(file.file_name for file in stretch.files): stretch for stretch in stretches}
    moves += [(tuple(stretch.files), stretch.level) for stretch in whole.values() if stretch.files]
    moves = [(files, level) for files, level in moves if level > 0]
    spans = []
    for files, level in moves:
        low, high = min(key_of(f.min_key) for f in files), max(key_of(f.max_key) for f in files)
        spans.append((low, high, files[0].file_name, level))
    spans.sort()
    for (_, high, name, level), (low, _, other, _) in pairwise(spans):
        if low <= high:
            raise ProofError(
                pick, f"{name} and {other} share keys, but would be separate files of level {level}"
            )
    removed_names = {file.file_name for file in replaced} | {before.file_name for before, _ in moved}
    top = max((level for _, level in moves), default=0)
    staying = [file for file in live if 0 < file.level <= top and file.file_name not in removed_names]
    ends = [high for _, high, _, _ in spans]
    for file in staying:
        at = bisect_left(ends, key_of(file.min_key))
        if at < len(spans) and spans[at][0] <= key_of(file.max_key) and spans[at][3] == file.level:
            name = spans[at][2]
            raise ProofError(
                pick,
                f"the output of {name} would share keys with {file.file_name}, which stays on the same level",
            )
    fresh = [file for files, _ in moves for file in files if file.level == 0]
    late = [file for file in live if file.level == 0 and file.file_name not in removed_names]
    newest = max((file.max_sequence_number for file in fresh), default=0)
    for file in overlapping(late, fresh, key_of):
        if file.min_sequence_number < newest:
            raise ProofError(
                pick,
                f"newer rows would move above {file.file_name}, which has older rows of their "
                "keys and stays on level 0",
            )
    below = [file for file in staying if file.level < top]
    for files, level in moves if below else ():
        lowest = min(file.level for file in files)
        for file in overlapping([f for f in below if lowest < f.level < level], files, key_of):
            raise ProofError(
                pick,
                f"{files[0].file_name} would move above {file.file_name}, which shares its keys "
                f"and stays on level {file.level}",
            )


def check_row_order(pick: str, live: Sequence[DataFile], files: Sequence[DataFile]) -> None:
    """Raise ProofError unless `files` are joined in the order of their rows, with none left between them.

    `live` are all files of a bucket that keeps the order of rows, which is the order of their sequence
    numbers.
    """
    for left, right in pairwise(files):
        if left.min_sequence_number > right.min_sequence_number:
            raise ProofError(pick, f"rows of {right.file_name} come before those of {left.file_name}")
    names = {file.file_name for file in files}
    first, last = files[0].min_sequence_number, files[-1].min_sequence_number
    for file in live:
        if file.file_name not in names and first < file.min_sequence_number < last:
            raise ProofError(
                pick, f"rows of {file.file_name}, which stays, lie between the rows that are merged"
            )
