"""Names of the files that atomic writes make beside their target; a killed process leaves them there."""

from __future__ import annotations

import re

__all__ = ["is_temporary"]

_TEMPORARY = re.compile(r"\..+\.tmp")


def is_temporary(name: str) -> bool:
    """Whether a file of that name (no path) is half of a write: nobody reads it."""
    return _TEMPORARY.fullmatch(name) is not None
