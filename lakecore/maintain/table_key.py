"""This module makes the names under which the runs, leases, holds and other records of a table are stored. It
is pure.
"""

from __future__ import annotations

from urllib.parse import quote

__all__ = ["file_name", "table_key"]

_LONGEST_NAME = 255
"""File systems have no longer names, in bytes."""

_ROOM = len("..json") + 36 + len("..tmp")
"""A file of records is written under a temporary name, which is so much longer."""


def table_key(table: str) -> str:
    """Return the table of `db.t$branch_b`: branches share files, so they share runs, leases and holds."""
    return table.partition("$")[0]


def file_name(*texts: str, is_folder: bool = True) -> str:
    """Return some texts as one name of a folder, or of a file that gets a suffix; `urllib.parse.unquote` has
    the text.

    They are percent-encoded, with `@` between them. Where such a name would be too long for a file system,
    characters outside of ASCII stay as they are, which takes a third of the bytes: a name of 29 Chinese
    characters is such a one.
    """
    name = "@".join(quote(text, safe="") for text in texts)
    if len(name) <= _LONGEST_NAME - (0 if is_folder else _ROOM):
        return name
    return "@".join(map(_shorter, texts))


def _shorter(text: str) -> str:
    return "".join(one if ord(one) > 127 else quote(one, safe="") for one in text)
