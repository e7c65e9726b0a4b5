"""One line of an index manifest: an index file, its kind and, for deletion vectors, whose rows it deletes."""

from __future__ import annotations

from dataclasses import dataclass

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
    """Where the deletion vector of `data_file` lies in its index file; `cardinality` None = not recorded."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """The deletion vector of a data file, as readers need it: the path of its index file, its place there."""

    path: str
    place: DeletionRange


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndex:
    """What an index over rows of many files covers: row ids `first` to `last`, both included."""

    first: int
    last: int
    field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    meta: bytes | None = None
    source_meta: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """`partition` is a serialised row. `deletions` is empty for other types. Sizes in bytes.

    `row_count`: hashes of a hash index, vectors of a deletion vector file. `has_unknown_columns`: its line
    has columns that rewriting it would lose.
    """

    partition: bytes
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletions: tuple[DeletionRange, ...] = ()
    external_path: str | None = None
    global_index: GlobalIndex | None = None
    has_unknown_columns: bool = False
