"""This module has one page of a list of tables. It is pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

__all__ = ["TablePage", "check_limit", "page_of"]


@dataclass(frozen=True, slots=True)
class TablePage:
    """This is a part of a list of tables."""

    tables: tuple[str, ...]
    next_token: str | None = None
    """It continues the list; None at its end."""


def check_limit(limit: int) -> None:
    """Raise InvalidInputError for a number of tables that no page can have."""
    if limit < 1:
        raise InvalidInputError(f"limit {limit}: a page has at least one table")


def page_of(names: Iterable[str], limit: int) -> TablePage:
    """Return the first `limit` of names that are in order, and of these only one more is looked at. The token
    is the last name of the page.
    """
    first = list(islice(names, limit + 1))
    if len(first) <= limit:
        return TablePage(tuple(first))
    return TablePage(tuple(first[:limit]), first[limit - 1])
