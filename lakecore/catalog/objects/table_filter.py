"""This module has the filter of lists of tables: by the beginning of their names, and by type. No IO.

Rules of `listTablesPaged` of Paimon's REST catalog: of a pattern of LIKE only the end may be `%`, a backslash
escapes the next character, `_` is a character like others, and an empty filter is none.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

__all__ = ["TABLE_TYPES", "TableFilter", "type_of_options"]

_NORMAL = "table"

TABLE_TYPES = (_NORMAL, "format-table", "materialized-table", "object-table", "lance-table", "iceberg-table")
"""These are the values of the option `type` of Paimon 1.4 and 2.0."""


@dataclass(frozen=True, slots=True)
class TableFilter:
    """It says which tables of a database are listed."""

    pattern: str | None = None
    """It is the pattern of names as it was given; None for all names."""
    table_type: str | None = None
    """It is one of `TABLE_TYPES`; None for all types."""
    _prefix: str = ""
    _exact: bool = False

    @classmethod
    def of(cls, pattern: str | None, table_type: str | None) -> TableFilter:
        """Check and return a filter. Raises InvalidInputError for a pattern with characters after `%` and for
        an unknown type.
        """
        if table_type and table_type not in TABLE_TYPES:
            raise InvalidInputError(f"table type {table_type!r}: use one of {', '.join(TABLE_TYPES)}")
        if not pattern:
            return cls(None, table_type or None)
        prefix, exact = _literal(pattern)
        return cls(pattern, table_type or None, prefix, exact)

    def has_name(self, name: str) -> bool:
        """Return whether the pattern of names is true for a name."""
        return name == self._prefix if self._exact else name.startswith(self._prefix)


def type_of_options(options: Mapping[str, str]) -> str:
    """Return the type of a table with these options."""
    return str(options.get("type") or _NORMAL)


def _literal(pattern: str) -> tuple[str, bool]:
    """Return what a name has to begin with, and whether that is the whole name."""
    characters: list[str] = []
    escaped, exact = False, True
    for character in pattern:
        if not escaped and character in "\\%":
            escaped, exact = character == "\\", exact and character != "%"
            continue
        if not exact:
            raise InvalidInputError(
                f"pattern {pattern!r}: only the end of a pattern may be %, as in 'ods_%'; write \\% for the "
                "character itself"
            )
        characters.append(character)
        escaped = False
    return "".join(characters), exact
