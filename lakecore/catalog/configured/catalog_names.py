"""This module parses names with a catalog, `catalog.db.table`. It is pure."""

from __future__ import annotations

import re
from collections.abc import Container

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

__all__ = ["QualifiedName", "check_catalog_name", "is_catalog_name", "qualified"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True, slots=True)
class QualifiedName:
    """This is a name with the catalog that it begins with, if any."""

    catalog: str | None
    rest: str
    """It is `db.table`, or what else the text says without the catalog."""


def is_catalog_name(name: str) -> bool:
    """Return whether a catalog can have the name."""
    return _NAME.fullmatch(name) is not None


def check_catalog_name(name: str) -> str:
    """Return the name of a catalog. Raises InvalidInputError for one that no file and no `catalog.db.table`
    can have.
    """
    if not is_catalog_name(name):
        raise InvalidInputError(
            f"catalog {name[:120]!r}: the name of a catalog has at most 100 letters of ASCII, digits, - and "
            "_, and begins with a letter or digit"
        )
    return name


def qualified(text: str, catalogs: Container[str], *, database: bool = False) -> QualifiedName:
    """Split `catalog.db.table`, or with `database` `catalog.db`.

    Rule: a text of that many parts begins with a catalog if its first part is the name of one of `catalogs`;
    else a dot is part of the table's name, which Paimon allows.
    """
    first, _, rest = text.partition(".")
    has_all_parts = bool(rest) if database else "." in rest.partition("$")[0]
    if has_all_parts and first in catalogs:
        return QualifiedName(first, rest)
    return QualifiedName(None, text)
