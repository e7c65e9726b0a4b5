"""Handles of the same table over another storage or with another clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakecore.table import Table

__all__ = ["with_stores"]


def with_stores(table: Table, **stores: Any) -> Table:
    """Return a handle whose stores have other parts: `file_io=…`, `clock=…`."""
    return replace(table, _stores=replace(table._stores, **stores))
