"""Names of the temporary files that atomic writes make next to their target; a killed process leaves them
there.
"""

from __future__ import annotations

import re

__all__ = ["is_temporary"]

_TEMPORARY = re.compile(r"\..+\.tmp")


def is_temporary(name: str) -> bool:
    """Return whether a file of that name (no path) is an unfinished write, which nobody reads."""
    return _TEMPORARY.fullmatch(name) is not None
