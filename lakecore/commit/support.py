"""What this release must not commit to. Pure."""

from __future__ import annotations

from lakecore.errors import UnsupportedError
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import CommitKind

__all__ = ["check_committable"]

_STRICT_MODE = "commit.strict-mode.last-safe-snapshot"


def check_committable(schema: TableSchema, kind: CommitKind) -> None:
    """Raises UnsupportedError where a commit of this release would damage the table.

    A compaction must not join row ranges that others add columns to. Row ids and indexes are looked after
    elsewhere (`lakecore.commit.row_ids`, `index_changes`).
    """
    options = TableOptions.from_schema(schema)
    for on, key in (
        (options.data_evolution and kind is CommitKind.COMPACT, "data-evolution.enabled"),
        (_STRICT_MODE in schema.options, _STRICT_MODE),
    ):
        if on:
            raise UnsupportedError(
                f"{kind.value} commits to tables with option {key} are not supported by this release"
            )
