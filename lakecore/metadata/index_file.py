"""One line of an index manifest: an index file, its kind and, for deletion vectors, whose rows it deletes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DELETION_VECTORS", "HASH_INDEX", "DeletionRange", "IndexFile"]

DELETION_VECTORS = "DELETION_VECTORS"
HASH_INDEX = "HASH"


@dataclass(frozen=True, slots=True)
class DeletionRange:
    """Where the deletion vector of `data_file` lies in its index file; `cardinality` None = not recorded."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """`partition` is a serialised row. `deletions` is empty for other types. Sizes in bytes."""

    partition: bytes
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletions: tuple[DeletionRange, ...] = ()
    external_path: str | None = None
