"""This module has one page of a list of tables, or of other names. It is pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from lakecore.catalog.objects.table_filter import TableFilter
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

__all__ = ["NamePage", "TablePage", "check_limit", "name_page_of", "page_of"]


@dataclass(frozen=True, slots=True)
class TablePage:
    """This is a part of a list of tables."""

    tables: tuple[str, ...]
    next_token: str | None = None
    """It continues the list; None at its end."""


@dataclass(frozen=True, slots=True)
class NamePage:
    """This is a part of a list of databases, views or functions."""

    names: tuple[str, ...]
    next_token: str | None = None
    """It continues the list; None at its end."""


def check_limit(limit: int) -> None:
    """Raise InvalidInputError for a number of names that no page can have."""
    if limit < 1:
        raise InvalidInputError(f"limit {limit}: a page has at least one name")


def page_of(names: Iterable[str], limit: int) -> TablePage:
    """Return the first `limit` of names that are in order, and of these only one more is looked at. The token
    is the last name of the page.
    """
    first = list(islice(names, limit + 1))
    if len(first) <= limit:
        return TablePage(tuple(first))
    return TablePage(tuple(first[:limit]), first[limit - 1])


def name_page_of(names: Iterable[str], *, limit: int, token: str | None, pattern: str | None) -> NamePage:
    """Return the page of at most `limit` names after `token` that are like `pattern`. Raises
    InvalidInputError for a limit below 1 and for a pattern that is invalid.
    """
    check_limit(limit)
    chosen = TableFilter.of(pattern, None)
    page = page_of((one for one in sorted(names) if one > (token or "") and chosen.has_name(one)), limit)
    return NamePage(page.tables, page.next_token)
