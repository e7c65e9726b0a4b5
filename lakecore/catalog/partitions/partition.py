"""This module has a partition as a catalog lists it, and the protocol of its list. It is pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeAlias

from lakecore.data_class import dataclass

__all__ = ["Partition", "PartitionPage", "PartitionRequest", "Partitions"]

PartitionRequest: TypeAlias = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""These are partitions as callers name them: `dt=a,hh=b;dt=c`, or mappings of column to value or text, such
as `Partition.spec`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """This is a partition with the counts of its files, as Java's `Partition` has it.

    Rule of the format: the counts are of files before merging, and the newest file may be a deleted one.
    """

    spec: Mapping[str, str]
    """It has the text of each partition column, as in the names of directories; empty for a table without
    partitions.
    """
    record_count: int
    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int
    """It is the time of the newest file, in milliseconds since the epoch."""
    total_buckets: int
    """It is the bucket count of the newest entry; -1 where buckets are dynamic."""
    is_done: bool = False
    """It says whether the partition was marked as complete in the catalog."""
    created_at: int | None = None
    created_by: str | None = None
    updated_at: int | None = None
    updated_by: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionPage:
    """This is a part of a list of partitions."""

    partitions: tuple[Partition, ...]
    next_token: str | None = None
    """It continues the list; None at its end."""


class Partitions(Protocol):
    """These are the partitions of tables, `db.t` or `db.t$branch_b`. Methods raise NotFoundError for a table
    that does not exist, and InvalidInputError for what names no partition.
    """

    def list(
        self, table: str, *, partitions: PartitionRequest | None = None, where: str | None = None
    ) -> list[Partition]:
        """List the partitions, those that agree with any of `partitions` (some columns suffice) and with the
        condition `where` on partition columns, in order of their texts.
        """

    def list_page(
        self, table: str, *, limit: int | None = None, token: str | None = None, pattern: str | None = None
    ) -> PartitionPage:
        """List one page of at most `limit` partitions; `pattern` is a prefix of names, `dt=2024%`."""

    def create(self, table: str, partitions: PartitionRequest) -> None:
        """Add partitions to the list of the catalog. Partitions that are in it stay as they are."""

    def drop(self, table: str, partitions: PartitionRequest) -> int | None:
        """Remove all rows of partitions with one commit, and return its snapshot; None if there were no
        files.
        """

    def alter(self, table: str, partitions: Sequence[Partition]) -> None:
        """Replace the counts in the list of the catalog."""

    def mark_done(self, table: str, partitions: PartitionRequest) -> None:
        """Store in the list of the catalog that partitions are complete."""
