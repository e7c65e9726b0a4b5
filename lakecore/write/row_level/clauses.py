"""This module has the clauses of a merge, without what runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

__all__ = ["MatchedRows", "MergeRules", "UnmatchedRows", "WhenMatched", "WhenNotMatched"]


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
class WhenMatched:
    """This is the clause WHEN MATCHED [AND condition] THEN action."""

    action: MatchedRows
    condition: Any = None
    """This is an `Expression` of pyarrow.compute or a filter as text, over the columns of the row and, as
    `source.NAME`, those of the source. None is always true; null counts as false.
    """
    set: Mapping[str, Any] = field(default_factory=dict)
    """These are the values of an update, as `MergeRules.set`."""


@dataclass(frozen=True, kw_only=True)
class WhenNotMatched:
    """This is the clause WHEN NOT MATCHED [AND condition] THEN action."""

    action: UnmatchedRows = UnmatchedRows.INSERT
    condition: Any = None
    """It is as that of `WhenMatched`, over the columns of the source alone."""


@dataclass(frozen=True, kw_only=True)
class MergeRules:
    """These are the clauses of a merge: a short form, or `clauses` in order."""

    matched: MatchedRows = MatchedRows.UPDATE
    set: Mapping[str, Any] = field(default_factory=dict)
    """These are the values of an update: expressions see the columns of the row and, as `source.NAME`, those
    of the source. Empty: the columns that the source has, but for those of `on`.
    """
    not_matched: UnmatchedRows = UnmatchedRows.INSERT
    delete_not_matched_by_source: bool = False
    """It tells whether rows of the table that no row of the source matches are deleted."""
    clauses: Sequence[WhenMatched | WhenNotMatched] = ()
    """If there are some, they replace `matched`, `set` and `not_matched`: the first clause of its kind whose
    condition is true applies to a row; a row without one stays as it is, or is not inserted.
    """

    @property
    def when_matched(self) -> tuple[WhenMatched, ...]:
        """Return the clauses for rows that match, in order."""
        if self.clauses:
            return tuple(one for one in self.clauses if isinstance(one, WhenMatched))
        if self.matched is MatchedRows.IGNORE:
            return ()
        return (WhenMatched(action=self.matched, set=self.set),)

    @property
    def when_not_matched(self) -> tuple[WhenNotMatched, ...]:
        """Return the clauses for rows of the source that match none, in order."""
        if self.clauses:
            return tuple(one for one in self.clauses if isinstance(one, WhenNotMatched))
        return (WhenNotMatched(action=self.not_matched),)

    @property
    def deletes(self) -> bool:
        """Return whether the merge may delete rows."""
        deleting = any(one.action is MatchedRows.DELETE for one in self.when_matched)
        return deleting or self.delete_not_matched_by_source

    def check(self) -> None:
        """Raise InvalidInputError for clauses beside the short form, and for a clause without a condition
        before others of its kind, which could never apply.
        """
        short = MergeRules(delete_not_matched_by_source=self.delete_not_matched_by_source)
        if self.clauses and (self.matched, self.set, self.not_matched) != (
            short.matched, short.set, short.not_matched,
        ):  # fmt: skip
            raise InvalidInputError("give either clauses, or matched, set and not_matched")
        for kind, clauses in (
            ("WHEN MATCHED", self.when_matched),
            ("WHEN NOT MATCHED", self.when_not_matched),
        ):
            if any(one.condition is None for one in clauses[:-1]):
                raise InvalidInputError(f"only the last clause {kind} may have no condition")
        for one in self.when_matched:
            if one.set and one.action is not MatchedRows.UPDATE:
                raise InvalidInputError(f"a clause that means {one.action.value} sets no column")
