"""How lakecore writes and reads the table of a history."""

from __future__ import annotations

from typing import Any, Protocol

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.table import Table
from tests.fuzz.history import Step
from tests.fuzz.lake_steps import write_rows
from tests.fuzz.row_lines import read_lines

__all__ = ["IN_PROCESS", "Way"]


class Way(Protocol):
    """It does the step `write` or `overwrite`, and reads."""

    def write(self, table: Table, step: Step) -> None:
        """Write the rows of the step."""

    def read(
        self, catalog: FilesystemCatalog, name: str, *, branch: str | None = None, **at: Any
    ) -> list[str]:
        """The rows as sorted lines. `at`: snapshot=, tag= or where=."""


class _InProcess:
    """In this process, without an engine."""

    def write(self, table: Table, step: Step) -> None:
        write_rows(table, step)

    def read(
        self, catalog: FilesystemCatalog, name: str, *, branch: str | None = None, **at: Any
    ) -> list[str]:
        table = catalog.load_table(name)
        return read_lines((table if branch is None else table.at_branch(branch)).scan(**at))


IN_PROCESS: Way = _InProcess()
