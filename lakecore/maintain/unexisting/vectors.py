"""This module removes deletion vectors of data files that a table does not have (any more)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from lakecore.data_class import dataclass
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, IndexFile
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.store.indexes import IndexStore
from lakecore.store.vector_files import replace_vectors

__all__ = ["VectorChange", "discard", "stale_vectors", "without_vectors"]

Bucket = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class VectorChange:
    """These index files of one bucket are added and removed together."""

    bucket: Bucket
    added: tuple[IndexFile, ...]
    removed: tuple[IndexFile, ...]


def stale_vectors(files: Sequence[IndexFile], live: ManifestEntries) -> dict[Bucket, frozenset[str]]:
    """Return the names of data files, by bucket, that have a vector and are not live. The cost is that of the
    names of files in buckets with vectors.
    """
    marked: dict[Bucket, set[str]] = defaultdict(set)
    for file in files:
        if file.index_type == DELETION_VECTORS:
            marked[file.partition, file.bucket].update(vector.data_file for vector in file.deletions)
    if not marked:
        return {}
    present: dict[Bucket, set[str]] = defaultdict(set)
    places = zip(live.partition.tolist(), live.bucket.tolist(), live.names(), strict=True)
    for code, bucket, name in places:
        place = (live.partitions[code], bucket)
        if place in marked:
            present[place].add(name.decode())
    stale = {place: frozenset(names - present[place]) for place, names in marked.items()}
    return {place: names for place, names in stale.items() if names}


def without_vectors(
    target: Target, files: Sequence[IndexFile], removed_names: Mapping[Bucket, Collection[str]]
) -> tuple[VectorChange, ...]:
    """Write new index files without the vectors of `removed_names`. A failure leaves none behind.

    `files`: all of a snapshot. Raises NotFoundError when one that must be rewritten is itself gone.
    """
    store = IndexStore(target.file_io, target.paths, target.schema, target.clock)
    one = TableOptions.from_schema(target.schema).bucket_mode is not BucketMode.BUCKET_UNAWARE
    by_bucket: dict[Bucket, list[IndexFile]] = defaultdict(list)
    for file in files:
        if file.index_type == DELETION_VECTORS:
            by_bucket[file.partition, file.bucket].append(file)
    changes: list[VectorChange] = []
    try:
        for bucket, names in removed_names.items():
            own = by_bucket.get(bucket, [])
            new, old = replace_vectors(store, bucket, own, names, {}, one_per_bucket=one)
            if old:
                changes.append(VectorChange(bucket, new, old))
    except BaseException:
        discard(target, changes)
        raise
    return tuple(changes)


def discard(target: Target, changes: Sequence[VectorChange]) -> None:
    """Delete the new index files, to which no snapshot refers, and none will."""
    store = IndexStore(target.file_io, target.paths, target.schema, target.clock)
    store.discard([file for change in changes for file in change.added])
