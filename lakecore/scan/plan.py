"""This module groups live entries into splits. It is pure.

Rules of the format: files of an append table are packed in order of their sequence numbers; files of a
primary-key bucket are packed individually only if no key can occur twice, else whole sections are packed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.lsm.section_columns import section_columns
from lakecore.lsm.sections import sections
from lakecore.metadata.key_numbers import key_numbers
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.options import Option, parse_size
from lakecore.scan.changelog_order import changelog_order
from lakecore.scan.split import SplitPlan
from lakecore.types.datatypes import RowType

__all__ = ["SectionPlan", "SplitPolicy", "bucket_splits", "by_bucket", "pack", "plan_sections", "plan_splits"]

Ints = npt.NDArray[Any]

SPLIT_TARGET = Option("source.split.target-size", parse_size, 128 << 20, "Bytes of files in one split.")
OPEN_FILE_COST = Option(
    "source.split.open-file-cost", parse_size, 4 << 20, "Bytes that a small file counts as."
)

_DENSE = 4
_MAX_SMALL = 1 << 16


@dataclass(frozen=True, slots=True)
class SplitPolicy:
    """These are the sizes that decide how files are packed into splits, in bytes."""

    target_size: int
    """A split is full at this size."""
    open_file_cost: int
    """A smaller file is taken as one of this size."""

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> SplitPolicy:
        """Build the policy from table options. Raises InvalidOptionError."""
        return cls(SPLIT_TARGET.read(raw), OPEN_FILE_COST.read(raw))


_EACH_SECTION = SplitPolicy(target_size=1, open_file_cost=1)


def plan_splits(
    entries: ManifestEntries,
    policy: SplitPolicy,
    key_type: RowType | None,
    *,
    keys_unique: bool = False,
    unordered: bool = False,
    as_changelog: bool = False,
) -> SplitPlan:
    """Plan splits over live entries, bucket by bucket in the order of the manifests.

    `key_type` is that of the primary key; None for an append table. `keys_unique`: above level 0 a key
    has one live row (deletion vectors hide the others). `unordered`: keys are unique as well, but files
    are not sorted by key. `as_changelog`: the entries are changes, to be read without merging in the order
    of `changelog_order`.
    """
    if not len(entries):
        none = np.zeros(0, np.int64)
        return SplitPlan(entries, none, np.zeros(1, np.int64), np.zeros(0, np.bool_))
    order, bounds = by_bucket(entries, entries.min_sequence if key_type is None else None)
    if key_type is None:
        starts = pack(_weights(entries, policy)[order], bounds, policy.target_size)
        return SplitPlan(entries, order, starts, np.ones(len(starts) - 1, np.bool_))
    keyed = _KeyedFiles(entries, policy, key_type, order, bounds, as_changelog)
    return _plan_keyed(keyed, keys_unique=keys_unique, unordered=unordered)


@dataclass(frozen=True, slots=True, eq=False)
class SectionPlan:
    """This plan has a split for each section of the splits of another plan that merge rows: a section of one
    file needs no merge. The other splits are those of that plan.
    """

    plan: SplitPlan
    origin: Ints
    """This is the number of the split of the other plan that each split is of, in ascending order."""

    def joined(self, mask: npt.NDArray[np.bool_]) -> SplitPlan:
        """Return a plan of the splits where `mask` is true, in which those of one origin are one split."""
        chosen, origin = self.plan.select(mask), self.origin[mask]
        if not len(origin):
            return chosen
        heads = np.flatnonzero(np.diff(origin, prepend=-1))
        alone = np.diff(np.append(heads, len(origin))) == 1
        return replace(
            chosen,
            starts=np.append(chosen.starts[heads], chosen.starts[-1]),
            raw_convertible=chosen.raw_convertible[heads] & alone,
        )


def plan_sections(plan: SplitPlan, key_type: RowType) -> SectionPlan:
    """Cut the splits of a plan (of `plan_splits`, with this key) that merge rows into their sections. An
    append table has none.

    It costs what `plan_splits` does for the files of these splits.
    """
    merged = np.flatnonzero(~plan.raw_convertible)
    if not len(merged):
        return SectionPlan(plan, np.arange(len(plan)))
    files = _KeyedFiles(plan.entries, _EACH_SECTION, key_type, plan.order.copy(), plan.starts, False)
    starts, raw = _merge(files, merged)
    every = np.concatenate([plan.starts[:-1][plan.raw_convertible], starts])
    sort = np.argsort(every)
    raw = np.concatenate([np.ones(len(every) - len(raw), np.bool_), raw])[sort]
    starts = every[sort]
    origin = np.searchsorted(plan.starts, starts, side="right") - 1
    starts = np.append(starts, plan.starts[-1])
    return SectionPlan(replace(plan, order=files.order, starts=starts, raw_convertible=raw), origin)


def bucket_splits(entries: ManifestEntries) -> SplitPlan:
    """Plan one split per bucket, its files in the order of the manifests, for reading without merging."""
    if not len(entries):
        none = np.zeros(0, np.int64)
        return SplitPlan(entries, none, np.zeros(1, np.int64), np.zeros(0, np.bool_))
    order, bounds = by_bucket(entries)
    return SplitPlan(entries, order, bounds, np.ones(len(bounds) - 1, np.bool_))


def _weights(entries: ManifestEntries, policy: SplitPolicy) -> Ints:
    return np.maximum(entries.file_size, policy.open_file_cost)


def by_bucket(entries: ManifestEntries, within: Ints | None = None) -> tuple[Ints, Ints]:
    """Order entries by bucket (first seen first); return that order and the bounds of the buckets in it.

    `within` orders the entries of a bucket; None keeps their order.
    """
    group = _bucket_numbers(entries)
    order = np.argsort(group, kind="stable") if within is None else np.lexsort((within, group))
    bounds = np.concatenate([[0], np.cumsum(np.bincount(group))])
    return order.astype(np.int64), bounds.astype(np.int64)


def _bucket_numbers(entries: ManifestEntries) -> Ints:
    """Return the bucket of each entry as a number in the order of first appearance; small numbers sort
    fast.
    """
    low = int(entries.bucket.min())
    width = int(entries.bucket.max()) - low + 1
    place = entries.partition.astype(np.int64) * width + (entries.bucket - low)
    if width * len(entries.partitions) > _DENSE * len(entries):
        place = np.unique(place, return_inverse=True)[1]
    first = np.full(int(place.max()) + 1, len(place), np.int64)
    first[place[::-1]] = np.arange(len(place))[::-1]
    used = np.flatnonzero(first < len(place))
    rank = np.empty(len(first), np.uint16 if len(used) <= _MAX_SMALL else np.int64)
    rank[used[np.argsort(first[used])]] = np.arange(len(used))
    numbers: Ints = rank[place]
    return numbers


def pack(weights: Ints, bounds: Ints, target: int) -> Ints:
    """Return the starts of packs over items in order: a pack ends before an item that exceeds `target`,
    and with its group.
    """
    total = np.concatenate([[0], np.cumsum(weights)])
    count = len(weights)
    ends = np.repeat(bounds[1:], np.diff(bounds))
    reach = np.searchsorted(total, total[:-1] + target, side="right") - 1
    jump = np.minimum(np.maximum(reach, np.arange(1, count + 1)), ends).tolist()
    starts = []
    at = 0
    while at < count:
        starts.append(at)
        at = jump[at]
    return np.array([*starts, count], np.int64)


@dataclass(frozen=True, slots=True)
class _KeyedFiles:
    """These are the files of a table with a primary key, by bucket."""

    entries: ManifestEntries
    policy: SplitPolicy
    key_type: RowType
    order: Ints
    """The entries in this order are bucket by bucket."""
    bounds: Ints
    """Buckets begin and end there in `order`."""
    as_changelog: bool


def _plan_keyed(files: _KeyedFiles, *, keys_unique: bool, unordered: bool) -> SplitPlan:
    entries, policy, order, bounds = files.entries, files.policy, files.order, files.bounds
    as_changelog = files.as_changelog
    weights = _weights(entries, policy)[order]
    heads = bounds[:-1]
    level = entries.level[order]
    clean = entries.delete_row_count[order] == 0
    one_level = np.minimum.reduceat(level, heads) == np.maximum.reduceat(level, heads)
    disjoint = (
        (one_level | keys_unique)
        & (np.minimum.reduceat(level, heads) > 0)
        & np.logical_and.reduceat(clean, heads)
    )
    alone = disjoint | (np.diff(bounds) == 1) | unordered
    small = (np.add.reduceat(weights, heads) <= policy.target_size) & (not as_changelog)
    packed = pack(weights, bounds, policy.target_size)[:-1]
    owner = np.searchsorted(bounds, packed, side="right") - 1
    packed = packed[alone[owner]]
    owner = owner[alone[owner]]
    starts = [packed, heads[~alone & small]]
    plain = np.logical_and.reduceat(clean, packed) if unordered else clean[packed]
    raw = [disjoint[owner] | plain, np.zeros(len(starts[1]), np.bool_)]
    merged = np.flatnonzero(~alone & ~small)
    if len(merged):
        merged_sections = _merge(files, merged)
        starts.append(merged_sections[0])
        raw.append(merged_sections[1])
    every = np.concatenate(starts)
    sort = np.argsort(every)
    raw_convertible = np.concatenate(raw)[sort] | as_changelog
    return SplitPlan(entries, order, np.append(every[sort], len(order)), raw_convertible)


def _merge(files: _KeyedFiles, merged: Ints) -> tuple[Ints, Ints]:
    """Bring the files of the buckets `merged` into the order of their sections, in `order`; return where
    their splits start, and which are raw.
    """
    entries, policy, key_type, as_changelog = files.entries, files.policy, files.key_type, files.as_changelog
    order, bounds = files.order, files.bounds
    sizes = np.diff(bounds)[merged]
    place = np.repeat(bounds[merged] - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
    bucket = np.repeat(np.arange(len(merged)), sizes)
    lanes = order[place]
    columns = None if as_changelog else _by_columns(entries, lanes, bucket, key_type)
    within, heads = columns or _by_files(entries, lanes, bucket, key_order(key_type), as_changelog)
    lanes = lanes[within]
    order[place] = lanes
    total = np.concatenate([[0], np.cumsum(entries.file_size[lanes])])
    weights = np.maximum(total[np.append(heads[1:], len(lanes))] - total[heads], policy.open_file_cost)
    owner = bucket[heads]
    groups = np.searchsorted(owner, np.arange(len(merged) + 1))
    packs = pack(weights, groups, policy.target_size)
    firsts = np.append(heads, len(lanes))[packs]
    raw = (np.diff(firsts) == 1) & (entries.delete_row_count[lanes[firsts[:-1]]] == 0)
    return place[firsts[:-1]], raw


def _by_columns(
    entries: ManifestEntries, lanes: Ints, bucket: Ints, key_type: RowType
) -> tuple[Ints, Ints] | None:
    """Return the order of the files by bucket and section, and where sections start; None where keys have
    no order as numbers.
    """
    keys = entries.select(lanes).keys()
    numbers = None if keys is None else key_numbers(*keys, key_type)
    if numbers is None:
        return None
    bucket_sections = section_columns(bucket, *numbers)
    return bucket_sections.order, bucket_sections.starts


def _by_files(
    entries: ManifestEntries, lanes: Ints, bucket: Ints, key_of: Callable[[bytes], Any], as_changelog: bool
) -> tuple[Ints, Ints]:
    """Return the same from the descriptions of the files, one bucket after the other."""
    order: list[int] = []
    heads: list[int] = []
    for places in np.split(np.arange(len(lanes)), np.flatnonzero(np.diff(bucket)) + 1):
        files = entries.files(lanes[places])
        place_of = {id(file): place for file, place in zip(files, places.tolist(), strict=True)}
        bucket_sections = (
            changelog_order(files, key_of)
            if as_changelog
            else [section.files for section in sections(files, key_of)]
        )
        for section in bucket_sections:
            heads.append(len(order))
            order += [place_of[id(file)] for file in section]
    return np.array(order, np.int64), np.array(heads, np.int64)
