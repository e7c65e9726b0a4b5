"""This module makes the name under which a table's runs, leases and holds are kept. It is pure."""

from __future__ import annotations

__all__ = ["table_key"]


def table_key(table: str) -> str:
    """Return the table of `db.t$branch_b`: branches share files, so they share runs, leases and holds."""
    return table.partition("$")[0]
