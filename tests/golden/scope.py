"""Which golden tables this release claims, decided from what Java says of them (not by lakecore's own checks)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.golden import GoldenTable, View

__all__ = ["unclaimed_compaction", "unclaimed_read", "unclaimed_write"]


def unclaimed_read(table: GoldenTable, view: View) -> str | None:
    """Why this state of `table` is refused, or None when its rows are to be read."""
    return _unclaimed_read(table.schema(_schema_id(table, view), view.branch))


def _unclaimed_read(schema: Mapping[str, Any]) -> str | None:
    """Every table that Java wrote is."""
    return None


def unclaimed_compaction(table: GoldenTable) -> str | None:
    """Why compacting `table` is refused, or None."""
    return _unclaimed_change(table.facts["schema"])


def unclaimed_write(schema: Mapping[str, Any]) -> str | None:
    """Why a write to a table of this schema (as in its file) is refused, or None."""
    options = {k: v for k, v in schema["options"].items() if k != "data-evolution.enabled"}
    return _unclaimed_change({**schema, "options": options})  # columns are joined by compactions


def _unclaimed_change(schema: Mapping[str, Any]) -> str | None:
    options = schema["options"]
    if reason := _unclaimed_read(schema):
        return reason
    for key, reason in _UNCLAIMED.items():
        if options.get(key, "false") != "false":
            return reason
    return None


_UNCLAIMED = {"data-evolution.enabled": "data evolution"}


def _schema_id(table: GoldenTable, view: View) -> int:
    """The schema that a read of this state uses: that of the named snapshot, else the latest."""
    if view.snapshot is not None:
        return int(next(s["schemaId"] for s in table.facts["snapshots"] if s["id"] == view.snapshot))
    if view.tag is not None:
        return int(next(t["json"]["schemaId"] for t in table.facts["tags"] if t["name"] == view.tag))
    if view.branch is not None:
        folder = table.path / "branch" / f"branch-{view.branch}" / "schema"
        return max(int(path.name.removeprefix("schema-")) for path in folder.iterdir())
    return int(table.facts["schema"]["id"])
