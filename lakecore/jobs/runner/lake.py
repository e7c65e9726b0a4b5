"""This module declares the part of a catalog that jobs use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from lakecore.clock import Clock
from lakecore.compact.engine.target import RewriteTarget
from lakecore.fs.file_io import FileIO
from lakecore.maintain.target import Target
from lakecore.table import Table

__all__ = ["Lake", "rewrite_target", "target_of"]


class Lake(Protocol):
    """This is a warehouse and its tables."""

    @property
    def file_io(self) -> FileIO: ...

    @property
    def warehouse(self) -> str: ...

    def load_table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
        """Open a table. Raises NotFoundError."""
        ...


def target_of(table: Table, lake: Lake, clock: Clock) -> Target:
    """Return an opened table as the target of a chore."""
    return Target(table.name, lake.warehouse, replace(table._stores, clock=clock, manifest_cache=None))


def rewrite_target(table: Table, clock: Clock) -> RewriteTarget:
    """Return an opened table as the target of a run that rewrites files of it."""
    stores = replace(table._stores, clock=clock, manifest_cache=None)
    return RewriteTarget(table.name, stores, table._overrides)
