"""What jobs need of a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from lakecore.clock import Clock
from lakecore.fs.file_io import FileIO
from lakecore.maintain.target import Target
from lakecore.table import Table

__all__ = ["Lake", "target_of"]


class Lake(Protocol):
    """A warehouse and its tables."""

    @property
    def file_io(self) -> FileIO: ...

    @property
    def warehouse(self) -> str: ...

    def load_table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
        """Raises NotFoundError."""
        ...


def target_of(table: Table, lake: Lake, clock: Clock) -> Target:
    """An opened table as a chore knows it."""
    return Target(table.name, lake.warehouse, table.file_io, table.paths, table.schema, clock)
