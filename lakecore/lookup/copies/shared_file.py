"""This module has what is known of a file in a directory of shared copies. Pure."""

from __future__ import annotations

from lakecore.data_class import dataclass

__all__ = ["SharedFile"]


@dataclass(frozen=True, slots=True)
class SharedFile:
    """This is a file of the directory."""

    path: str
    size: int
    used_ms: int
    is_complete: bool
    """It is False for a copy that is being made, or that was left by a process that was killed."""
