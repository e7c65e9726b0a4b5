"""This module decides which files of a bucket are put in order, and which are merged. Pure.

Rules of the format: every compaction takes up level 0. Files above, from the lowest to the highest, form
sections of files that overlap; sections of several files and small ones (below half a target file) are
merged, neighbours together. A full compaction also merges files that have deleted rows. Beyond the format:
files that only share the value where one ends and the next begins do not overlap, or what a compaction made
would be merged again by the next; and a full compaction leaves large files alone that are in order already
and have no deleted rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from lakecore.compact.engine.work import Place
from lakecore.compact.kinds.sort.plan import CutPolicy, SortPick, cuts_of, deletions_of
from lakecore.data_class import dataclass
from lakecore.metadata.key_order import comparable
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import decode_row
from lakecore.scan.change_scanner import Deletions
from lakecore.types.datatypes import DataField, RowType, with_nullable

__all__ = [
    "SORTED_LEVEL",
    "BoundsOf",
    "ClusteredRequest",
    "FreshPick",
    "Picks",
    "bounds_of",
    "plan_clustered",
]

SORTED_LEVEL = 1

Bounds = tuple[Any, Any]
BoundsOf = Callable[[DataFile], Bounds | None]
"""It returns the clustering columns of the first and the last row of a file, comparable, or None if they
are not known.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteredRequest:
    """The request says how to pick. With `full` it also picks what has deleted rows. With `everything` it
    picks whatever the files look like.

    `target_size`: bytes of a file.
    """

    full: bool
    everything: bool
    target_size: int
    bounds_of: BoundsOf
    cuts: CutPolicy
    deletions: Deletions = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshPick:
    """These are the files of level 0 of a bucket, oldest first, and those above, which may hold rows of
    their keys.
    """

    place: Place
    fresh: tuple[DataFile, ...]
    above: tuple[DataFile, ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        return (*self.fresh, *self.above)

    @property
    def newest_schema(self) -> int:
        """Return the highest schema id among the files whose rows the pick may read."""
        return max(file.schema_id for file in self.files)


@dataclass(frozen=True, slots=True)
class Picks:
    """A bucket is in one of both."""

    fresh: tuple[FreshPick, ...]
    sorts: tuple[SortPick, ...]


def bounds_of(columns: RowType, schema_of: Callable[[int], TableSchema]) -> BoundsOf:
    """Return the bounds of files. `columns` are those by which the table is clustered; `schema_of` returns
    the schema a file was written with.

    Files written when other columns, or other types, were in force have unknown bounds.
    """
    is_key = tuple(map(_plain, columns.fields))
    signs: dict[int, bool] = {}

    def comparable_to(schema_id: int) -> bool:
        if schema_id not in signs:
            schema = schema_of(schema_id)
            names = TableOptions.from_schema(schema).clustering_columns
            fields = [field for name in names for field in schema.fields if field.name == name]
            signs[schema_id] = tuple(map(_plain, fields)) == is_key
        return signs[schema_id]

    def bounds(file: DataFile) -> Bounds | None:
        if not comparable_to(file.schema_id):
            return None
        low, high = (decode_row(key, columns, file.file_name) for key in (file.min_key, file.max_key))
        return _nulls_first(low), _nulls_first(high)

    return bounds


def plan_clustered(entries: ManifestEntries, request: ClusteredRequest) -> Picks:
    """Return the picks of all buckets among live `entries`. Buckets with files of level 0 have no other work
    for now.
    """
    fresh, groups = list[FreshPick](), list[tuple[Place, tuple[DataFile, ...], str]]()
    for place, files in _buckets(entries, request.deletions):
        new = tuple(file for file in files if file.level == 0)
        above = tuple(file for file in files if file.level > 0)
        if new:
            fresh.append(FreshPick(place=place, fresh=new, above=above))
        else:
            groups += [(place, group, reason) for group, reason in _groups(place, above, request)]
    whole = sum(_size(group) for _, group, _ in groups)
    sorts = (
        SortPick(
            place=place,
            files=group,
            deletions=deletions_of(place, group, request.deletions),
            cuts=cuts_of(_size(group), whole, request.cuts),
            level=SORTED_LEVEL,
            reason=reason,
        )
        for place, group, reason in groups
    )
    return Picks(tuple(fresh), tuple(sorts))


def _groups(
    place: Place, files: Sequence[DataFile], request: ClusteredRequest
) -> Iterator[tuple[tuple[DataFile, ...], str]]:
    """Yield files of level 1 that are rewritten, group by group, and why."""
    if request.everything and files:
        yield tuple(files), "all files are rewritten"
        return
    for group in _joined_sections(place, files, request):
        if any(_thins_out(place, file, request) for file in group):
            yield group, "full"
        elif len(group) > 1:
            yield group, "full" if request.full else "overlap"


def _joined_sections(
    place: Place, files: Sequence[DataFile], request: ClusteredRequest
) -> Iterator[tuple[DataFile, ...]]:
    """Yield neighbouring sections that need work, as one."""
    pending: list[DataFile] = []
    for section in _sections(files, request.bounds_of):
        small = _size(section) < request.target_size // 2
        if len(section) > 1 or small or _thins_out(place, section[0], request):
            pending += section
        elif pending:
            yield tuple(pending)
            pending = []
    if pending:
        yield tuple(pending)


def _sections(files: Sequence[DataFile], bounds: BoundsOf) -> Iterator[list[DataFile]]:
    """Yield files that overlap, directly or in a chain; in doubt all of them do."""
    bounded = [(bounds(file), file) for file in files]
    ranged = sorted(
        ((*ranges, file) for ranges, file in bounded if ranges is not None), key=lambda item: item[:2]
    )
    if len(ranged) < len(files):
        yield list(files)
        return
    members, end = list[DataFile](), None
    for low, high, file in ranged:
        if members and low >= end:
            yield members
            members = []
        end = max(end, high) if members else high
        members.append(file)
    if members:
        yield members


def _thins_out(place: Place, file: DataFile, request: ClusteredRequest) -> bool:
    """Return whether a full compaction removes rows from the file."""
    if not request.full:
        return False
    return bool(file.delete_row_count) or (place.partition, place.bucket, file.file_name) in request.deletions


def _size(files: Iterable[DataFile]) -> int:
    return sum(file.file_size for file in files)


def _plain(column: DataField) -> tuple[int, Any]:
    return column.id, with_nullable(column.type, True)


def _nulls_first(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(() if value is None else (comparable(value),) for value in row)


def _buckets(entries: ManifestEntries, deletions: Deletions) -> Iterator[tuple[Place, list[DataFile]]]:
    """Yield buckets that may have something to do, with their files in the order of the manifests."""
    if not len(entries):
        return
    bucket = (entries.partition.astype(np.int64) << 32) | (entries.bucket.astype(np.int64) & 0xFFFFFFFF)
    order = np.argsort(bucket, kind="stable")
    marked = {(partition, number) for partition, number, _ in deletions}
    for lanes in np.split(order, np.flatnonzero(np.diff(bucket[order])) + 1):
        first = int(lanes[0])
        alone = len(lanes) == 1 and entries.level[first] > 0 and entries.delete_row_count[first] == 0
        if alone and (entries.partition_of(first), int(entries.bucket[first])) not in marked:
            continue
        part = entries.select(lanes)
        yield Place(part.partition_of(0), int(part.bucket[0]), int(part.total_buckets[0])), part.files()
