"""This module has how many rows a change touched."""

from __future__ import annotations

from lakecore.commit.request import CommitResult
from lakecore.data_class import dataclass

__all__ = ["MergedRows", "RowCounts"]


@dataclass(slots=True)
class RowCounts:
    """These numbers grow while rows are read."""

    updated: int = 0
    deleted: int = 0
    inserted: int = 0


@dataclass(frozen=True, slots=True)
class MergedRows:
    """It says how many rows a merge changed, and has its commit: without a snapshot when there were none."""

    updated: int
    deleted: int
    inserted: int
    commit: CommitResult
