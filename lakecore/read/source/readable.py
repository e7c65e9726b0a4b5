"""This module has the interface through which reading sees a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from lakecore.metadata.schema import TableSchema
from lakecore.read.context import ReadContext
from lakecore.scan.table_handle import TableHandle

__all__ = ["Readable"]


class Readable(TableHandle, Protocol):
    """This is a table that is read. `_overrides` are options that hold for this handle only."""

    @property
    def path(self) -> str:
        """Return the directory of the table."""

    @property
    def _overrides(self) -> Mapping[str, str]: ...

    def with_options(self, options: Mapping[str, str]) -> Readable:
        """Return a handle with options that hold for it only."""

    def at_branch(self, branch: str) -> Readable:
        """Return a handle of the branch of that name."""

    def _at_schema(self, schema: TableSchema) -> Readable:
        """Return a handle that reads with that schema."""

    def _read_context(self, schema: TableSchema | None = None) -> ReadContext:
        """Return the context for reading with `schema`, None: with the schema of the handle."""
