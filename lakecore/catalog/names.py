"""This module parses and checks names: `db.t`, `db.t$branch_b`, `db.t$files`. A name never leaves the
warehouse. No IO.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

__all__ = [
    "DATABASE_SUFFIX",
    "PAIMON_KIND",
    "SYSTEM_DATABASE",
    "TableName",
    "alternatives",
    "check_data_table",
    "check_name",
    "check_not_system",
    "check_properties",
    "split_object",
]

DATABASE_SUFFIX = ".db"
SYSTEM_DATABASE = "sys"
"""This database holds the tables of the catalog itself."""

PAIMON_KIND = "Paimon"
"""It is the kind of a table with snapshots."""

_BRANCH_MARK = "branch_"
_FORBIDDEN = re.compile(r"[/\\\x00-\x1f\x7f]")
_HALVES = re.compile(r"[\ud800-\udfff]")
"""Half of a surrogate pair cannot be written as UTF-8."""

_MAX_BYTES = 240
_MOST_NAMES = 5


def check_name(name: str, what: str) -> str:
    """Return `name` if it can be one directory below the warehouse. Raises InvalidInputError saying why
    not.
    """
    if not name or name != name.strip():
        raise InvalidInputError(f"{what} {name!r}: a name must not be empty or begin or end with a space")
    if _FORBIDDEN.search(name):
        raise InvalidInputError(f"{what} {name!r}: a name must not contain / \\ or control characters")
    if _HALVES.search(name):
        raise InvalidInputError(f"{what} {name!r}: a name must not contain half of a surrogate pair")
    if name.startswith("."):
        raise InvalidInputError(f"{what} {name!r}: a name must not begin with a dot")
    if len(name.encode("utf-8")) > _MAX_BYTES:
        raise InvalidInputError(f"{what} {name[:40]!r}…: a name has at most {_MAX_BYTES} bytes")
    return name


def alternatives(
    what: str, missing: str, names: Collection[str], exists: Callable[[str], bool] = lambda name: True
) -> str:
    """List the `names` for an error message when they are few, else those most similar to `missing`.

    `exists` is called only for the names to show.
    """
    if len(names) <= _MOST_NAMES:
        return f"{what}: " + (", ".join(filter(exists, sorted(names))) or "none")
    by_case = {name.lower(): name for name in sorted(names)}
    near = (by_case[close_names] for close_names in get_close_matches(missing.lower(), by_case, _MOST_NAMES))
    text = ", ".join(filter(exists, near))
    return (
        f"the closest of {len(names)} {what} are: {text}"
        if text
        else f"none of {len(names)} {what} has a similar name"
    )


@dataclass(frozen=True, slots=True)
class TableName:
    """A table of a database, or a branch of it; `system` is the name of one of its system tables."""

    database: str
    table: str
    branch: str = "main"
    system: str | None = None

    def __str__(self) -> str:
        branch = "" if self.branch == "main" else f"${_BRANCH_MARK}{self.branch}"
        system = "" if self.system is None else f"${self.system}"
        return f"{self.database}.{self.table}{branch}{system}"

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Parse a name. Raises InvalidInputError saying what is wrong. Names of system tables are not looked
        up.
        """
        if not isinstance(text, str):
            raise InvalidInputError(f"table {text!r}: write DATABASE.TABLE, as text")
        database, dot, rest = text.partition(".")
        if not dot or not rest:
            raise InvalidInputError(f"table {text!r}: write DATABASE.TABLE")
        table, mark, suffix = rest.partition("$")
        branch, system = "main", None
        if mark and suffix.startswith(_BRANCH_MARK):
            branch, mark, suffix = suffix.removeprefix(_BRANCH_MARK).partition("$")
            branch = check_name(branch, "branch")
        if mark:
            system = check_name(suffix, "system table")
        return cls(check_name(database, "database"), check_name(table, "table"), branch, system)


def check_properties(changed: object, removed: object) -> None:
    """Raise InvalidInputError unless `changed` is a mapping of texts, or None, and `removed` some names."""
    if changed is not None and not (
        isinstance(changed, Mapping) and all(isinstance(one, str) for pair in changed.items() for one in pair)
    ):
        raise InvalidInputError(
            f"properties {changed!r}: write a mapping of the name of a property to its text"
        )
    if isinstance(removed, str | Mapping) or not isinstance(removed, Iterable):
        raise InvalidInputError(f"removed properties {removed!r}: write a list of names")


def check_not_system(database: str, verb: str) -> None:
    """Raise InvalidInputError for the database of the catalog itself; `verb` is what was asked for."""
    if database == SYSTEM_DATABASE:
        raise InvalidInputError(
            f"database {database!r} cannot be {verb}: it holds the tables of the catalog itself; "
            "choose another database"
        )


def check_data_table(name: str, verb: str) -> TableName:
    """Parse the name of a table that may be created, renamed or dropped; `verb` is what was asked for.

    Raises InvalidInputError for a branch, a system table and a table of the database `sys`.
    """
    parsed = TableName.parse(name)
    if parsed.branch != "main" or parsed.system is not None:
        raise InvalidInputError(
            f"table {name!r}: a branch or system table cannot be {verb} like a table; name the table itself"
        )
    if parsed.database == SYSTEM_DATABASE:
        raise InvalidInputError(
            f"table {name!r}: the database {SYSTEM_DATABASE!r} holds the tables of the catalog itself; "
            "choose another database"
        )
    return parsed


def split_object(name: str) -> tuple[str, str]:
    """Split `db.name` of a view or a function. Raises InvalidInputError."""
    database, dot, own_name = name.partition(".")
    if not dot or not own_name:
        raise InvalidInputError(f"{name!r}: write DATABASE.NAME")
    return check_name(database, "database"), check_name(own_name, "name")
