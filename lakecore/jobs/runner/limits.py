"""This module declares the limits on how much of a lake is processed at once. This module imports nothing,
because commands read it at start-up.
"""

from __future__ import annotations

from lakecore.data_class import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """These limits say how much of a lake is processed at once."""

    tables: int = 8
    """This is the number of tables that are processed at once."""
    plan_bytes: int = 512 << 20
    """This is the memory for their plans, as estimated from their manifests before they are read. A plan
    that is larger than this is held alone.
    """
