"""This module replaces the index files of a bucket when deletion vectors are added, removed or extended.

An index file never changes: a vector that leaves it, or a row more in it, means a new file with the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyroaring import BitMap

from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.store.indexes import IndexStore

__all__ = ["replace_vectors"]

Replaced = tuple[tuple[IndexFile, ...], tuple[IndexFile, ...]]


def replace_vectors(
    store: IndexStore,
    place: tuple[bytes, int],
    files: Sequence[IndexFile],
    removed_names: Collection[str],
    marks: Mapping[str, BitMap],
    *,
    one_per_bucket: bool,
) -> Replaced:
    """Write new index files of a bucket and return them, with those of `files` (all vectors of the bucket)
    that they replace.

    `place`: serialised partition, bucket. `removed_names`: data files that leave the table. `marks`: more
    deleted positions by data file. `one_per_bucket`: rule of the format for all tables but those with unaware
    buckets. A failure leaves no new file behind.
    """
    concerned = {*removed_names, *marks}
    old = tuple(file for file in files if any(vector.data_file in concerned for vector in file.deletions))
    if one_per_bucket and (old or marks):
        old = tuple(files)
    vectors: dict[str, BitMap] = {}
    for file in old:
        files_kept = {vector.data_file for vector in file.deletions}.difference(removed_names)
        vectors |= store.read_vectors(file, files_kept)
    for name, more in marks.items():
        vectors[name] = vectors[name] | more if name in vectors else more
    if not vectors:
        return (), old
    if one_per_bucket:
        return (store.write_vectors(*place, vectors),), old
    return store.roll_vectors(*place, vectors), old
