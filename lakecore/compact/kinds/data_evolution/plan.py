"""This module decides which files of a table with data evolution are joined: columns of the same rows, small
neighbours. Pure.

Rules of the format: neighbouring row ranges become one file of all ordinary columns until they pass the
target size; a range that passes it alone stays alone. Vector files stay as they are, blob files unless the
table says otherwise (`blob_plan`), and so do deleted rows: their vector moves to the new file. Where the
schema changed between ranges, so that they have blob or vector files of other kinds, a joined range could not
be read: they stay apart (Java joins them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from lakecore.compact.engine.work import Place, Strategy
from lakecore.compact.kinds.append.plan import JoinPick, JoinRequest
from lakecore.compact.kinds.data_evolution.blob_plan import BlobRules
from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.row_range import RowRange, row_ranges
from lakecore.scan.change_scanner import Deletions

__all__ = ["Columns", "plan_ranges"]

_FULL_MIN_FILES = 2


@dataclass(frozen=True, slots=True)
class Columns:
    """It decides which columns joined files have. `all_ids` are the field ids of the table, by name, and
    `columns_of` returns those of a file.

    `apart`: field ids that lie, or will lie, in files of their own. One that ordinary files have all the same
    (the option came later) stays with them.
    """

    all_ids: dict[str, int]
    apart: frozenset[int]
    columns_of: Callable[[DataFile], frozenset[int]]

    def dedicated_ids_in_ordinary_files(self, rows: RowRange) -> frozenset[int]:
        """Return the field ids of `apart` that the ordinary files of these rows have."""
        if not self.apart:
            return self.apart
        return self.apart & frozenset().union(*(self.columns_of(file) for file in rows.ordinary))

    def dedicated_kinds(self, rows: RowRange) -> frozenset[object]:
        """Return which kinds of files of their own these rows have. Rule of the format: each kind has all
        rows of an ordinary file, so rows with other kinds cannot share one.
        """
        blobs = (self.columns_of(file) for file in rows.blobs)
        vectors = (
            (file.schema_id, file.file_name.rpartition(".")[2], file.write_cols) for file in rows.vectors
        )
        return frozenset([*blobs, *vectors])

    def of(self, staying: frozenset[int]) -> tuple[str, ...] | None:
        """Return the names of the columns, or None for all."""
        missing_columns = self.apart - staying
        return (
            tuple(name for name, field_id in self.all_ids.items() if field_id not in missing_columns)
            if missing_columns
            else None
        )


def plan_ranges(
    entries: ManifestEntries,
    request: JoinRequest,
    columns: Columns,
    deletions: Deletions,
    blobs: BlobRules | None = None,
) -> tuple[JoinPick, ...]:
    """Return picks in all buckets of live `entries`, all of which have row ids, with at least `min_files`
    files each.

    FULL also picks two. `blobs`: None where blob files stay. Cost: every file becomes an object. Raises
    CorruptDataError for files that hold a part of the rows of others.
    """
    place = (entries.partition.astype(np.int64) << 32) | (entries.bucket.astype(np.int64) & 0xFFFFFFFF)
    lanes = np.argsort(place, kind="stable")
    picks: list[JoinPick] = []
    for members in np.split(lanes, np.flatnonzero(np.diff(place[lanes])) + 1) if len(lanes) else ():
        part = entries.select(members)
        where = Place(part.partition_of(0), int(part.bucket[0]), int(part.total_buckets[0]))
        least = _FULL_MIN_FILES if request.strategy is Strategy.FULL else request.policy.min_files
        for pack in _packs([rows for rows in row_ranges(part.files()) if rows.ordinary], request, columns):
            if sum(len(rows.ordinary) for rows in pack) >= max(least, _FULL_MIN_FILES):
                picks.append(_join(where, pack, columns, deletions, blobs))
            elif blobs is not None:
                blob_groups = (blobs.groups(rows.blobs) for rows in pack)
                picks += (JoinPick(where, (), (), blobs=groups) for groups in blob_groups if groups)
    return tuple(picks)


def _join(
    where: Place,
    pack: Sequence[RowRange],
    columns: Columns,
    deletions: Deletions,
    blobs: BlobRules | None,
) -> JoinPick:
    """Return the pick of a pack. Blob files that follow one another are joined only where the ordinary files
    before them are.
    """
    files = tuple(file for rows in pack for file in rows.ordinary)
    anchors = {rows.anchor.file_name for rows in pack}
    vectors = (deletions.get((where.partition, where.bucket, file.file_name)) for file in files)
    marked = tuple(v if v is not None and v.place.data_file in anchors else None for v in vectors)
    groups = () if blobs is None else blobs.groups(file for rows in pack for file in rows.blobs)
    return JoinPick(
        where, files, marked, columns.of(columns.dedicated_ids_in_ordinary_files(pack[0])), groups
    )


def _packs(ranges: Sequence[RowRange], request: JoinRequest, columns: Columns) -> Iterator[list[RowRange]]:
    policy = request.policy
    waiting: list[RowRange] = []
    weight, stop = 0, -1
    kinds: object = None
    for rows in ranges:
        own = sum(max(file.file_size, policy.open_file_cost) for file in rows.ordinary)
        alone = own > policy.target_file_size
        other = columns.dedicated_ids_in_ordinary_files(rows), columns.dedicated_kinds(rows)
        if waiting and (alone or rows.first != stop or weight > policy.target_file_size or other != kinds):
            yield waiting
            waiting, weight = [], 0
        stop, kinds = rows.first + rows.count, other
        if alone:
            yield [rows]
        else:
            waiting.append(rows)
            weight += own
    if waiting:
        yield waiting
