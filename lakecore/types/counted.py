"""A number and what it counts, for messages: `1 file`, `2 files`. Pure."""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: int, thing: str, things: str | None = None) -> str:
    """`things`: the plural, where it does not end with one more `s`."""
    return f"{count} {thing if count == 1 else things or thing + 's'}"
