"""This module has what reading and writing both see of a table: its name, schema and options, and where its
parts are stored.
"""

from __future__ import annotations

from typing import Protocol

from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.scan.scanner import Scanner
from lakecore.store.table_stores import TableStores

__all__ = ["TableHandle"]


class TableHandle(Protocol):
    """This is a table, or a branch of one."""

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> TableSchema: ...
    @property
    def options(self) -> TableOptions: ...
    @property
    def _stores(self) -> TableStores: ...
    @property
    def _scanner(self) -> Scanner: ...
