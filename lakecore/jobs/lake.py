"""What jobs need of a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from lakecore.fs.file_io import FileIO
from lakecore.table import Table

__all__ = ["Lake"]


class Lake(Protocol):
    """A warehouse and its tables."""

    @property
    def file_io(self) -> FileIO: ...

    @property
    def warehouse(self) -> str: ...

    def load_table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
        """Raises NotFoundError."""
        ...
