"""This module names the orders in which rows can be sorted. It imports nothing: commands know it before they
begin.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["OrderStrategy"]


class OrderStrategy(Enum):
    """It says how rows are put in order: not at all, by columns in turn, or along a curve."""

    NONE = "none"
    ORDER = "order"
    ZORDER = "zorder"
    HILBERT = "hilbert"
