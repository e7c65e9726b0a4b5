"""This module divides the picks of many buckets at once into files that are rewritten and files that move,
from columns. Pure, vectorised.

The rule is that of `divide`, which works on the files of one pick.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.lsm.rewrites import Upgrade
from lakecore.lsm.section_columns import section_columns

__all__ = ["UPGRADES", "PickColumns", "Tasks", "divide_columns"]

Ints: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]

UPGRADES = (Upgrade.MOVE, Upgrade.ANNOUNCE, Upgrade.REWRITE)
"""These are the codes of what happens to a file that only changes its level."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PickColumns:
    """These are the files of all picks, pick after pick."""

    pick: Ints
    """This is the number of the pick, ascending from 0 on."""
    low: Ints
    """This is the lowest key as a number (`key_numbers`)."""
    high: Ints
    size: Ints
    must_rewrite: Mask
    """A file is rewritten although it overlaps nothing."""
    upgrade: Ints
    """This is the place in `UPGRADES` of what happens to a file that only changes its level; -1 if it is at
    the output level already."""


@dataclass(frozen=True, slots=True, eq=False)
class Tasks:
    """It tells which of the files are rewritten, which only change their level, and the rows of which of
    these belong into the change stream.
    """

    rewritten: Mask
    moved: Mask
    announced: Mask


def divide_columns(files: PickColumns, small_file_size: int) -> Tasks:
    """Return what is done with each file. It costs the sorts of `section_columns`."""
    sections = section_columns(files.pick, files.low, files.high)
    head = sections.order[sections.starts]
    pick = files.pick[head]
    waits = sections.overlapping | (files.size[head] < small_file_size)
    alone = ~waits | (~sections.overlapping & _is_lone(waits, pick))
    rewritten = np.repeat(~alone, np.diff(np.append(sections.starts, len(sections.order))))
    tasks = np.empty(len(files.pick), np.bool_)
    tasks[sections.order] = rewritten
    upgrade = files.upgrade
    forced = files.must_rewrite | (upgrade == UPGRADES.index(Upgrade.REWRITE))
    moved = ~tasks & ~forced & (upgrade >= 0)
    return Tasks(tasks | forced, moved, moved & (upgrade == UPGRADES.index(Upgrade.ANNOUNCE)))


def _is_lone(waits: Mask, pick: Ints) -> Mask:
    """Return which of the sections that wait for neighbours have none that waits with them."""
    both = waits[1:] & waits[:-1] & (pick[1:] == pick[:-1])
    joined = np.zeros(len(waits), np.bool_)
    joined[1:] |= both
    joined[:-1] |= both
    return ~joined
