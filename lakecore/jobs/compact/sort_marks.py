"""This module stores sort marks: it converts them to and from the marks that clustering uses."""

from __future__ import annotations

from lakecore.compact.kinds.sort.marks import Marks, SortMark
from lakecore.jobs.runner.lake import Lake
from lakecore.maintain.sort_marks import SortMarkStore

__all__ = ["add", "load"]


def load(lake: Lake, table: str) -> dict[bytes, SortMark]:
    """Load the marks of a table. This costs one read."""
    marks = SortMarkStore(lake.file_io, lake.warehouse).load(table)
    return {partition: SortMark(*mark) for partition, mark in marks.items()}


def add(lake: Lake, table: str, marks: Marks) -> None:
    """Add marks of a table. This costs a read and a write. Marks of deleted partitions stay: some 150 bytes
    each.
    """
    store = SortMarkStore(lake.file_io, lake.warehouse)
    new = {partition: (mark.order, mark.files) for partition, mark in marks.items()}
    before = store.load(table)
    if before | new != before:
        store.save(table, before | new)
