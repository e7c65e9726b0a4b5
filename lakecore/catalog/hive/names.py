"""This module checks names that a Hive metastore stores. It is pure."""

from __future__ import annotations

import re

from lakecore.errors import InvalidInputError

__all__ = ["check_hive_name"]

_NAME = re.compile(r"[a-z0-9_]+")
_MOST = 128


def check_hive_name(name: str, what: str) -> None:
    """Raise InvalidInputError for a name that a metastore refuses, cuts off, or stores in lower case."""
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"{what} {name!r}: a Hive metastore has names of lower-case letters, digits and _ only; choose "
            "such a name"
        )
    if len(name) > _MOST:
        raise InvalidInputError(
            f"{what} {name[:40]!r}…: in a Hive metastore a name has at most {_MOST} letters"
        )
