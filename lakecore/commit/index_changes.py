"""This module derives the index files that are valid after a commit. It is pure.

Rules of the format: an index manifest is complete; a data file has at most one deletion vector; a bucket of a
table with buckets has one index file of each type. Beyond the format, a commit must name what it replaces, so
that deletions and bucket assignments of concurrent commits are never lost. A global index names rows by their
ids: it stays valid when files are compacted, and becomes wrong when rows that it covers get new values in a
column that it indexes. Source: Paimon's option `global-index.column-update-action`, by default an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from lakecore.commit.conflict import Conflict
from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, HASH_INDEX, GlobalIndex, IndexFile

__all__ = [
    "DataFiles",
    "IndexChange",
    "Place",
    "UpdatedRows",
    "check_no_stale_index",
    "indexes_after",
]

Place = tuple[bytes, int, str]
"""It identifies a data file: serialised partition, bucket, name."""


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The index files that one snapshot adds and removes."""

    added: tuple[IndexFile, ...] = ()
    removed: tuple[IndexFile, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    @property
    def files(self) -> tuple[IndexFile, ...]:
        return self.added + self.removed

    @property
    def deletes_rows(self) -> bool:
        """Return whether deletion vectors are added or removed."""
        return any(file.index_type == DELETION_VECTORS for file in self.files)


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The changes of the same commit to data files; they are computed only where there are deletion
    vectors.
    """

    removed_places: Callable[[], frozenset[Place]]
    """It returns the files that the commit removes for good."""
    live: Callable[[frozenset[tuple[bytes, int]]], frozenset[Place]]
    """It returns the files of the given buckets that are in the table after the commit."""
    emptied: Callable[[Iterable[bytes]], frozenset[bytes]]
    """This function returns those of the given partitions that the commit overwrites."""


@dataclass(frozen=True, slots=True)
class UpdatedRows:
    """These are rows that get new values in some columns."""

    first: int
    """It is the first row id."""
    last: int
    field_ids: frozenset[int]


def indexes_after(
    previous: Sequence[IndexFile], change: IndexChange, data: DataFiles, *, one_per_bucket: bool
) -> tuple[tuple[IndexFile, ...], tuple[Conflict, ...]]:
    """Return all index files after the change, and the conflicts that prevent it.

    With `one_per_bucket` the deletion vectors of a bucket are in one file (every table but those with unaware
    buckets). Raises UnsupportedError for other indexes over the changed rows, and for columns that would be
    lost.
    """
    emptied = data.emptied({file.partition for file in previous})
    dropped = {file.file_name for file in change.removed}
    unchanged = tuple(f for f in previous if f.partition not in emptied and f.file_name not in dropped)
    _refuse_others(unchanged, data)
    conflicts = (
        *_lost_files(previous, change, emptied),
        *_doubled_files(unchanged, change.added, one_per_bucket=one_per_bucket),
        *_forgotten(unchanged, data),
        *_aimless(change, data),
    )
    after = (*unchanged, *change.added)
    if after != tuple(previous) and any(file.has_unknown_columns for file in unchanged):
        raise UnsupportedError(
            "this commit would rewrite an index manifest that has columns unknown to this release, and "
            "would lose them; commit with the newer version that wrote them"
        )
    return after, conflicts


def check_no_stale_index(table: str, indexes: Sequence[IndexFile], updates: Iterable[UpdatedRows]) -> None:
    """Raise UnsupportedError where an index covers an updated column of updated rows."""
    covering = [(file, file.global_index) for file in indexes if file.global_index is not None]
    for update in updates if covering else ():
        for file, index in covering:
            if (
                index.first <= update.last
                and update.first <= index.last
                and _fields(index) & update.field_ids
            ):
                raise UnsupportedError(
                    f"{table}: rows {update.first} to {update.last} get new values in a column of the global "
                    f"index {file.file_name} ({file.index_type}), which would then find wrong rows; drop the "
                    "index with the engine that made it, and make it again after the update"
                )


def _refuse_others(live: Sequence[IndexFile], data: DataFiles) -> None:
    for file in live:
        if file.index_type not in (DELETION_VECTORS, HASH_INDEX) and data.removed_places():
            raise UnsupportedError(
                f"index {file.file_name} of type {file.index_type} would have to be rewritten with the data "
                "files that this commit replaces, which this release cannot do; use another engine"
            )


def _lost_files(
    previous: Sequence[IndexFile], change: IndexChange, emptied: frozenset[bytes]
) -> Iterator[Conflict]:
    present = {file.file_name for file in previous}
    for file in change.removed:
        if file.file_name not in present and file.partition not in emptied:
            yield _conflict("the index file to be replaced was replaced by another commit", file)


def _doubled_files(
    live: Sequence[IndexFile], added: Sequence[IndexFile], *, one_per_bucket: bool
) -> Iterator[Conflict]:
    """Find two index files of a bucket, or two vectors of a data file, of which one is new."""
    buckets = {_slot(file) for file in live if one_per_bucket or file.index_type == HASH_INDEX}
    vectors = {place for file in live for place in _places(file)}
    for file in added:
        if _slot(file) in buckets:
            yield _conflict("another commit wrote an index of this bucket", file)
        if one_per_bucket or file.index_type == HASH_INDEX:
            buckets.add(_slot(file))
        for place in _places(file):
            if place in vectors:
                yield Conflict("another commit deleted rows of this file", *place)
            vectors.add(place)


def _forgotten(live: Sequence[IndexFile], data: DataFiles) -> Iterator[Conflict]:
    """Find vectors of data files that the commit removes without having taken them into account."""
    if not _vectors(live):
        return
    removed_places = data.removed_places()
    for file in live:
        for place in _places(file):
            if place in removed_places:
                yield Conflict("another commit deleted rows of the file to be replaced", *place)


def _aimless(change: IndexChange, data: DataFiles) -> Iterator[Conflict]:
    """Find new vectors of data files that are not in the table, except those that only moved to another index
    file.
    """
    carried = {place for file in change.removed for place in _places(file)}
    vectors = [f for f in _vectors(change.added) if not carried.issuperset(_places(f))]
    if not vectors:
        return
    live = data.live(frozenset((file.partition, file.bucket) for file in vectors))
    for file in vectors:
        for place in _places(file):
            if place not in live and place not in carried:
                yield Conflict("the file whose rows are deleted was replaced by another commit", *place)


def _vectors(files: Sequence[IndexFile]) -> list[IndexFile]:
    return [file for file in files if file.deletions]


def _slot(file: IndexFile) -> tuple[bytes, int, str]:
    return file.partition, file.bucket, file.index_type


def _places(file: IndexFile) -> list[Place]:
    return [(file.partition, file.bucket, place.data_file) for place in file.deletions]


def _conflict(reason: str, file: IndexFile) -> Conflict:
    return Conflict(reason, file.partition, file.bucket, file.file_name)


def _fields(index: GlobalIndex) -> frozenset[int]:
    return frozenset((index.field_id, *(index.extra_field_ids or ())))
