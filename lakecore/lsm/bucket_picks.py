"""This module chooses the picks of many buckets from columns, for those who do not run them. Pure.

Where columns do not tell, the files of a bucket have to be looked at: for the order of some files of level 0,
and for keys that have no order as numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.lsm.bucket_columns import BucketColumns
from lakecore.lsm.rewrite_columns import UPGRADES, PickColumns, divide_columns
from lakecore.lsm.rewrites import Upgrade
from lakecore.lsm.runs import LevelRun, Pick, number_of_levels
from lakecore.metadata.key_numbers import key_numbers
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.types.datatypes import RowType

__all__ = ["BucketRules", "ColumnPick", "pick_buckets"]

Ints: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRules:
    """These are the rules by which files of a bucket are picked and divided."""

    num_levels: int
    small_file_size: int
    key_type: RowType | None
    choose: Callable[[tuple[LevelRun, ...], int], Pick | None]
    """It chooses among the sorted runs of a bucket, newest first, given its highest level."""
    upgrade: Callable[[DataFile, int, int], Upgrade]
    """It decides on a file that changes its level, from the format, the level and the number of deletes of
    the file, and from the level of the output and the highest one.
    """
    force_rewrite: bool = False
    looks_up: bool = False
    """Rows of the runs that are not picked are read."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnPick:
    """It is the pick of one bucket; files are places in the entries."""

    pick: Pick
    rewritten: Ints
    moved: Ints
    announced: Ints
    """The rows of these moved files are read."""
    newest_schema: int
    """This is the highest schema id among the files whose rows the pick may read."""

    @property
    def first(self) -> int:
        """Return one of the files."""
        return int((self.rewritten if len(self.rewritten) else self.moved)[0])


def pick_buckets(
    entries: ManifestEntries, rules: BucketRules, excluded: Collection[tuple[bytes, int]] = ()
) -> tuple[tuple[ColumnPick, ...], ManifestEntries]:
    """Return the picks among live `entries`, and the files of the buckets that have to be looked at file by
    file: the `excluded` ones, as partition and bucket, are among them. It costs some 1 us for each file of a
    bucket with a pick.
    """
    if not len(entries):
        return (), entries
    columns = BucketColumns.of(entries)
    unclear = columns.runs.undecided.copy()
    if excluded:
        unclear |= [columns.is_one_of(bucket, excluded) for bucket in range(len(columns))]
    choices = list(_choices(columns, np.flatnonzero(~unclear), rules))
    picks = _picks(columns, choices, rules)
    if picks is None:
        unclear[[choice.bucket for choice in choices]] = True
        picks = ()
    sizes = np.diff(columns.bounds)
    return picks, entries.select(np.sort(columns.order[np.repeat(unclear, sizes)]))


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    bucket: int
    pick: Pick
    max_level: int
    lanes: Ints
    """These are the files of the picked runs, as places in the entries."""


def _choices(columns: BucketColumns, buckets: Ints, rules: BucketRules) -> Iterator[_Choice]:
    for bucket, runs in zip(buckets.tolist(), columns.runs.runs_of(buckets), strict=True):
        max_level = number_of_levels(runs, rules.num_levels) - 1
        pick = rules.choose(runs, max_level)
        if pick is None:
            continue
        lanes = columns.newest(bucket, pick.count)
        is_done = len(lanes) == 1 and columns.entries.level[lanes[0]] == pick.output_level
        if rules.force_rewrite or not is_done:
            yield _Choice(bucket, pick, max_level, lanes)


def _picks(
    columns: BucketColumns, choices: Sequence[_Choice], rules: BucketRules
) -> tuple[ColumnPick, ...] | None:
    """Return the picks that do something; None where keys have no order as numbers."""
    if not choices:
        return ()
    files = columns.entries.select(np.concatenate([choice.lanes for choice in choices]))
    keys = files.keys()
    numbers = None if keys is None or rules.key_type is None else key_numbers(*keys, rules.key_type)
    if numbers is None:
        return None
    ends = np.cumsum([len(choice.lanes) for choice in choices])
    pick = np.repeat(np.arange(len(choices)), np.diff(ends, prepend=0))
    last = np.array([choice.pick.output_level == choice.max_level for choice in choices])[pick]
    tasks = divide_columns(
        PickColumns(
            pick=pick,
            low=numbers[0],
            high=numbers[1],
            size=files.file_size,
            must_rewrite=rules.force_rewrite | (last & (files.delete_row_count != 0)),
            upgrade=_upgrades(files, choices, pick, rules),
        ),
        rules.small_file_size,
    )
    picks = []
    for choice, start, end in zip(choices, [0, *ends.tolist()], ends.tolist(), strict=False):
        part = slice(start, end)
        masks = (tasks.rewritten[part], tasks.moved[part], tasks.announced[part])
        if masks[0].any() or masks[1].any():
            picks.append(_pick(columns, choice, [choice.lanes[mask] for mask in masks], rules))
    return tuple(picks)


def _pick(columns: BucketColumns, choice: _Choice, files: Sequence[Ints], rules: BucketRules) -> ColumnPick:
    rewritten, moved, announced = files
    above = columns.older(choice.bucket, choice.pick.count) if rules.looks_up else rewritten[:0]
    read = np.concatenate([rewritten, announced, above])
    return ColumnPick(
        pick=choice.pick,
        rewritten=rewritten,
        moved=moved,
        announced=announced,
        newest_schema=int(columns.entries.schema_id[read].max(initial=0)),
    )


def _upgrades(files: ManifestEntries, choices: Sequence[_Choice], pick: Ints, rules: BucketRules) -> Ints:
    """Return, as `PickColumns.upgrade`, what happens to files that only change their level. Of the files that
    agree in what the rule looks at, one is asked about.
    """
    targets = np.array([(choice.pick.output_level, choice.max_level) for choice in choices], np.int64)
    columns = (
        files.name_words().end_numbers(b"."),  # which have the formats
        files.level.astype(np.int64),
        np.sign(files.delete_row_count) + 1,  # unknown, none, some
        *targets[pick].T,
    )
    shape = tuple(int(column.max()) + 1 for column in columns)
    keys = np.ravel_multi_index(columns, shape)
    _, examples, codes = np.unique(keys, return_index=True, return_inverse=True)
    ways = []
    for file, target in zip(files.files(examples), targets[pick[examples]].tolist(), strict=True):
        way = rules.upgrade(file, *target)
        ways.append(-1 if file.level == target[0] else UPGRADES.index(way))
    return np.array(ways, np.int64)[codes]
