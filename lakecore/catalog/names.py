"""Names of databases and tables: `db.t`, `db.t$branch_b`. A name never leaves the warehouse. No IO."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import get_close_matches

from lakecore.errors import InvalidInputError, UnsupportedError

__all__ = ["DATABASE_SUFFIX", "TableName", "alternatives", "check_name"]

DATABASE_SUFFIX = ".db"

_BRANCH_MARK = "branch_"
_FORBIDDEN = re.compile(r"[/\\\x00-\x1f\x7f]")
_MAX_BYTES = 240
_SHOWN = 5


def check_name(name: str, what: str) -> str:
    """`name`, if it can be one directory below the warehouse. Raises InvalidInputError saying why not."""
    if not name or name != name.strip():
        raise InvalidInputError(f"{what} {name!r}: a name must not be empty or begin or end with a space")
    if _FORBIDDEN.search(name):
        raise InvalidInputError(f"{what} {name!r}: a name must not contain / \\ or control characters")
    if name.startswith("."):
        raise InvalidInputError(f"{what} {name!r}: a name must not begin with a dot")
    if len(name.encode("utf-8", "surrogatepass")) > _MAX_BYTES:
        raise InvalidInputError(f"{what} {name[:40]!r}…: a name has at most {_MAX_BYTES} bytes")
    return name


def alternatives(
    what: str, missing: str, names: Collection[str], exists: Callable[[str], bool] = lambda name: True
) -> str:
    """For an error message: the `names` when they are few, else those most like `missing`.

    `exists` is asked only of the names to show.
    """
    if len(names) <= _SHOWN:
        return f"{what}: " + (", ".join(filter(exists, sorted(names))) or "none")
    by_case = {name.lower(): name for name in sorted(names)}
    near = (by_case[found] for found in get_close_matches(missing.lower(), by_case, _SHOWN))
    shown = ", ".join(filter(exists, near))
    return f"closest of {len(names)} {what}: {shown}" if shown else f"none of {len(names)} {what} is like it"


@dataclass(frozen=True, slots=True)
class TableName:
    """A table of a database, or a branch of it."""

    database: str
    table: str
    branch: str = "main"

    def __str__(self) -> str:
        suffix = "" if self.branch == "main" else f"${_BRANCH_MARK}{self.branch}"
        return f"{self.database}.{self.table}{suffix}"

    @classmethod
    def parse(cls, text: str) -> TableName:
        """`db.t` or `db.t$branch_b`. Raises InvalidInputError, UnsupportedError for a system table."""
        database, dot, rest = text.partition(".")
        if not dot or not rest:
            raise InvalidInputError(f"table {text!r}: write DATABASE.TABLE")
        table, mark, suffix = rest.partition("$")
        branch = "main"
        if mark:
            if not suffix.startswith(_BRANCH_MARK):
                raise UnsupportedError(f"table {text!r}: this release has no system tables")
            branch = check_name(suffix.removeprefix(_BRANCH_MARK), "branch")
        return cls(check_name(database, "database"), check_name(table, "table"), branch)
