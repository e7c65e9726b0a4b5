"""This module writes a number and what it counts for messages, as in `1 file`, `2 files`. Pure."""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: int, thing: str, things: str | None = None) -> str:
    """Return a number and the thing it counts. `things` is the plural of `thing` if it is not formed with
    `s`.
    """
    return f"{count} {thing if count == 1 else things or thing + 's'}"
