"""This module asks a REST server for one page of a list of names."""

from __future__ import annotations

from lakecore.catalog.objects.table_filter import TableFilter
from lakecore.catalog.objects.table_page import NamePage, check_limit
from lakecore.catalog.rest.answers import names_of
from lakecore.catalog.rest.client import RestClient
from lakecore.data_class import dataclass

__all__ = ["PageRequest", "page_of_server"]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """It says which page of a list a caller asks for."""

    limit: int
    token: str | None
    pattern_key: str
    """The server reads the pattern of names under this key."""
    pattern: str | None


def page_of_server(
    client: RestClient, what: str, path: tuple[str, ...], key: str, request: PageRequest
) -> NamePage:
    """Return one page as the server chooses and orders it; `key` has the names in its answer. Raises
    InvalidInputError for a limit below 1 and for a pattern that is invalid.
    """
    check_limit(request.limit)
    chosen = TableFilter.of(request.pattern, None)
    fields = {
        "maxResults": str(request.limit),
        "pageToken": request.token,
        request.pattern_key: chosen.pattern,
    }
    part, following = client.page(what, path, key, {name: one for name, one in fields.items() if one})
    return NamePage(tuple(filter(chosen.has_name, names_of(what, part))), following or None)
