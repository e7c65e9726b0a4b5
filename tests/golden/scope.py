"""Which golden tables this release claims, decided from what Java says of them (not by lakecore's own checks)."""

from __future__ import annotations

from tests.support.golden import GoldenTable, View

__all__ = ["unclaimed_read"]


def unclaimed_read(table: GoldenTable, view: View) -> str | None:
    """Why this state of `table` is refused, or None when its rows are to be read: all are."""
    return None
