"""This module decides which rows count for which sequence group of a key (merge engine partial-update).

The highest sequence so far is a running maximum, but for rows that delete the whole key: they put their own
sequences in place of those that were there. Such rows are found in rounds, the first of each key, then the
next: as many rounds as the key with the most deletes has of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakecore.data_class import dataclass
from lakecore.merge.groups import MultiRowGroups
from lakecore.merge.row_order import Bools, Indices
from lakecore.metadata.row_kind import RowKind

__all__ = ["SequenceResult", "SequenceResults", "compare_sequences"]


@dataclass(frozen=True, slots=True)
class SequenceResult:
    """These are rows of one sequence group. `wins` are not below the sequence that is there, and `late`
    are below it.

    Rows without a sequence are neither.
    """

    wins: Bools
    late: Bools


@dataclass(frozen=True, slots=True)
class SequenceResults:
    """`resets` are rows that put all their values in place; `removed` are those of them that delete the
    key.
    """

    groups: tuple[SequenceResult, ...]
    resets: Bools
    removed: Bools


def compare_sequences(
    several: MultiRowGroups, ranks: Sequence[Indices], removing: Sequence[int], taking: Bools
) -> SequenceResults:
    """Return which rows count for each group. `ranks` is the order of each group's sequences, 0 for rows
    without; `removing` are groups whose -D rows delete a key.

    `taking`: rows that are not ignored. A retraction that begins a key puts its values in place first,
    ignored or not.
    """
    initial = np.zeros(len(several.rows), bool)
    initial[several.starts[:-1]] = several.retracts[several.starts[:-1]]
    removed = np.zeros(len(initial), bool)
    candidates = (several.kinds == RowKind.DELETE) & taking
    segments = several.groups
    live = candidates if removing else np.zeros(len(initial), bool)
    while live.any():
        hits = np.zeros(len(initial), bool)
        for i in removing:
            hits |= _wins(ranks[i], segments, taking) & live
        first = _first_of_each(hits, several.groups)
        removed |= first
        segments = _renumber(several.groups, removed)
        live = live & _after(first, several.groups)
    results = []
    for rank in ranks:
        wins = _wins(rank, segments, taking) & ~removed
        results.append(SequenceResult(wins, (rank > 0) & taking & ~wins & ~removed))
    return SequenceResults(tuple(results), initial | removed, removed)


def _wins(rank: Indices, segments: Indices, taking: Bools) -> Bools:
    """Return the rows with a sequence that is not below the highest before it in its segment.

    The first row of a segment sets the mark, whether it is taken or not: it put its values in place.
    """
    first = np.append(True, segments[1:] != segments[:-1]) if len(segments) else np.empty(0, bool)
    counted = np.where(taking | first, rank, 0)
    span = int(rank.max(initial=0)) + 1
    highest = np.maximum.accumulate(counted + segments * span) - segments * span
    before = np.where(first, 0, np.append(0, highest[:-1]))
    return np.asarray(taking & (rank > 0) & (rank >= before))


def _first_of_each(hits: Bools, groups: Indices) -> Bools:
    places = np.flatnonzero(hits)
    first = np.zeros(len(hits), bool)
    if len(places):
        first[places[np.append(True, groups[places][1:] != groups[places][:-1])]] = True
    return first


def _renumber(groups: Indices, removed: Bools) -> Indices:
    """Return the segment of each row: a key is one segment, cut before every row that removed it."""
    starts = np.append(True, groups[1:] != groups[:-1])
    return np.asarray(np.cumsum(starts | removed) - 1)


def _after(first: Bools, groups: Indices) -> Bools:
    """Return the rows after the row of their group that `first` marks; rows of other groups are done."""
    marked = np.full(int(groups[-1]) + 1, len(groups), np.int64)
    places = np.flatnonzero(first)
    marked[groups[places]] = places
    return np.asarray(np.arange(len(groups)) > marked[groups])
