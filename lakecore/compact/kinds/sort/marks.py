"""Marks say which partitions a sort has put in order, by the names of their files. This module is pure.

Files never change, so a partition that has just the files of a mark is in the order of the mark. A partition
that got other files has no mark. A mark that was lost costs a sort that was not needed, never a row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.schema import TableSchema
from lakecore.row.sort_rule import SortRule

__all__ = ["Marks", "SortMark", "marked_partitions", "marks_of", "order_name"]


@dataclass(frozen=True, slots=True)
class SortMark:
    """This is the mark of a partition that is in order. `order` is an `order_name`, `files` a digest of
    the names of all its files.
    """

    order: str
    files: str


Marks = Mapping[bytes, SortMark]
"""These are the marks by serialised partition."""


def order_name(rule: SortRule, schema: TableSchema) -> str:
    """Return the order, by ids and types of columns: a column of the same name may be another one
    tomorrow.
    """
    fields = (schema.row_type.field(name) for name in rule.columns)
    columns = ",".join(f"{field.id}:{field.type}" for field in fields)
    return f"{rule.strategy.value}({columns};{rule.var_bytes})"


def marked_partitions(
    entries: ManifestEntries, marks: Marks, order: str, deleted: Collection[bytes]
) -> frozenset[bytes]:
    """Return the partitions of live `entries` that are in the order named `order`, but those with `deleted`
    rows.

    Cost: the file names of the partitions with a mark.
    """
    marked = {key: mark.files for key, mark in marks.items() if mark.order == order and key not in deleted}
    return frozenset(
        partition
        for partition, part in _partitions(entries)
        if partition in marked and marked[partition] == _digest(part.names())
    )


def marks_of(entries: ManifestEntries, prefix: str, order: str) -> dict[bytes, SortMark]:
    """Return a mark for each partition of live `entries` whose files all have names that begin with
    `prefix`.
    """
    marks = {}
    for partition, part in _partitions(entries):
        names = part.names()
        if all(name.startswith(prefix.encode()) for name in names):
            marks[partition] = SortMark(order, _digest(names))
    return marks


def _partitions(entries: ManifestEntries) -> Iterator[tuple[bytes, ManifestEntries]]:
    order = np.argsort(entries.partition, kind="stable")
    starts = np.flatnonzero(np.diff(entries.partition[order])) + 1
    for members in np.split(order, starts) if len(order) else ():
        part = entries.select(members)
        yield part.partition_of(0), part


def _digest(names: Iterable[bytes]) -> str:
    return hashlib.sha256(b"\0".join(sorted(names))).hexdigest()
