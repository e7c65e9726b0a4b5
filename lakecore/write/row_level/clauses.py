"""This module has the clauses of a merge, without what runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

__all__ = ["MatchedRows", "MergeRules", "UnmatchedRows"]


class MatchedRows(Enum):
    """This enum says what becomes of a row of the table that a row of the source matches."""

    UPDATE = "update"
    DELETE = "delete"
    IGNORE = "ignore"


class UnmatchedRows(Enum):
    """This enum says what becomes of a row of the source that matches no row of the table."""

    INSERT = "insert"
    IGNORE = "ignore"


@dataclass(frozen=True, kw_only=True)
class MergeRules:
    """These are the clauses of a merge."""

    matched: MatchedRows = MatchedRows.UPDATE
    set: Mapping[str, Any] = field(default_factory=dict)
    """These are the values of an update: expressions see the columns of the row and, as `source.NAME`, those
    of the source. Empty: the columns that the source has, but for those of `on`.
    """
    not_matched: UnmatchedRows = UnmatchedRows.INSERT
    delete_not_matched_by_source: bool = False
    """It tells whether rows of the table that no row of the source matches are deleted."""

    @property
    def deletes(self) -> bool:
        """Return whether the merge may delete rows."""
        return self.matched is MatchedRows.DELETE or self.delete_not_matched_by_source
