"""This module names the strategies of a compaction. It imports nothing: commands know it before they
begin.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["Strategy"]


class Strategy(Enum):
    """UNIVERSAL does what writers would do now. FULL merges everything into one run per bucket."""

    UNIVERSAL = "universal"
    FULL = "full"
