"""The table as one try of a commit sees it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot

__all__ = ["TableView"]


@dataclass(frozen=True, slots=True)
class TableView:
    """The state of the table that a try is planned on."""

    latest: Snapshot | None
    """The snapshot to build on; None before the first."""
    schema: TableSchema
    """The latest schema."""
    options: TableOptions
    """Its options, without those of the commit."""
    raw: Mapping[str, str]
    """The options of the schema and, before them, those of the commit."""

    @classmethod
    def of(cls, latest: Snapshot | None, schema: TableSchema, overrides: Mapping[str, str]) -> TableView:
        """Return the view. Raises InvalidOptionError."""
        options = TableOptions.from_schema(schema)
        return cls(latest, schema, options, {**schema.options, **overrides})

    @property
    def next_id(self) -> int:
        """Return the id of the snapshot that the try would publish."""
        return 1 if self.latest is None else self.latest.id + 1
