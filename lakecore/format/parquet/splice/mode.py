"""This module names what is copied. It imports nothing: commands know it before they begin."""

from __future__ import annotations

from enum import Enum

__all__ = ["CopyMode"]


class CopyMode(Enum):
    """The mode tells which row groups of parquet files are copied without decoding them.

    NONE: none. LARGE (the default of jobs): those of files whose row groups have many rows or bytes each.
    ALL: also small ones, of which readers then find many in a file.
    """

    NONE = "none"
    LARGE = "large"
    ALL = "all"
