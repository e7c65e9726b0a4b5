"""This module refuses tables that this release must not commit to. It is pure."""

from __future__ import annotations

from lakecore.errors import UnsupportedError
from lakecore.metadata.schema import TableSchema

__all__ = ["check_committable"]

_STRICT_MODE = "commit.strict-mode.last-safe-snapshot"


def check_committable(schema: TableSchema) -> None:
    """Raise UnsupportedError where a commit of this release would damage the table.

    Row ids and indexes are checked elsewhere (`lakecore.commit.row_ids`, `index_changes`).
    """
    if _STRICT_MODE in schema.options:
        raise UnsupportedError(
            f"commits to tables with option {_STRICT_MODE} are not supported by this release"
        )
