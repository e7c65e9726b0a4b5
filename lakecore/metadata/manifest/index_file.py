"""This module has one line of an index manifest: an index file, its type and, for deletion vectors, the
data files whose rows it deletes.
"""

from __future__ import annotations

from lakecore.data_class import dataclass

__all__ = [
    "DELETION_VECTORS",
    "HASH_INDEX",
    "DeletionFile",
    "DeletionRange",
    "GlobalIndex",
    "IndexFile",
]

DELETION_VECTORS = "DELETION_VECTORS"
HASH_INDEX = "HASH"


@dataclass(frozen=True, slots=True)
class DeletionRange:
    """The place of the deletion vector of `data_file` in its index file; `cardinality` is None if it was
    not recorded.
    """

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """This is the deletion vector of a data file, as readers need it: the path of its index file, and its
    place there.
    """

    path: str
    place: DeletionRange


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndex:
    """This is the coverage of an index over rows of many files: row ids `first` to `last`, both included."""

    first: int
    last: int
    field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    meta: bytes | None = None
    source_meta: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """This is an index file. Sizes are in bytes."""

    partition: bytes
    """This is the serialised partition row."""
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    """This is the number of hashes of a hash index, or of vectors of a deletion vector file."""
    deletions: tuple[DeletionRange, ...] = ()
    """These are the places of deletion vectors; it is empty for other index types."""
    external_path: str | None = None
    global_index: GlobalIndex | None = None
    has_unknown_columns: bool = False
    """It tells whether its line has columns that rewriting it would lose."""
