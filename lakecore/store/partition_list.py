"""This module declares what a catalog stores about the partitions of a table beside the files: their list,
and which are complete.

The files are what counts. The list is changed after a commit or a tag, and a change of it that fails makes
neither fail: `repair` puts it right.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, TypeAlias

from lakecore.metadata.listed_partitions import has_listed_partitions, partition_texts
from lakecore.metadata.schema import TableSchema

__all__ = ["DoneMarks", "PartitionList", "PartitionTexts", "add_partitions"]

PartitionTexts: TypeAlias = tuple[str, ...]
"""These are the texts of a partition, in the order of the columns of the list."""


class PartitionList(Protocol):
    """This is the list of the partitions of one table, and of all its branches. Each call can be
    repeated.
    """

    @property
    def table(self) -> str:
        """Return the name of the table."""

    def partitions(self) -> list[PartitionTexts]:
        """Return all that are listed."""

    def add(self, partitions: Sequence[PartitionTexts]) -> None:
        """Add partitions; those that are listed stay as they are."""

    def remove(self, partitions: Sequence[PartitionTexts]) -> None:
        """Remove partitions; some may be missing."""


class DoneMarks(Protocol):
    """These are the marks of complete partitions that a catalog stores for one table."""

    def mark_done(self, partitions: Sequence[PartitionTexts]) -> None:
        """Mark partitions as complete; again is harmless."""

    def add(self, partitions: Sequence[PartitionTexts]) -> None:
        """Add partitions to the list of the catalog; those that are listed stay as they are."""


def add_partitions(partition_list: PartitionList, schema: TableSchema, partitions: Collection[bytes]) -> None:
    """Add the partitions of a commit, unless the list is one of tags."""
    if partitions and has_listed_partitions(schema):
        partition_list.add(sorted(tuple(one.values()) for one in partition_texts(partitions, schema)))
