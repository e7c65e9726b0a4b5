"""This module has the modes of a proof: how much it compares. It imports nothing, since commands need the
modes before they begin.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["ProofMode"]


class ProofMode(Enum):
    """The mode of a proof tells how many values it compares.

    KEYS: key, sequence fields, sequence number, row kind and the column of record-level expiry of all rows;
    of an append table a few columns (`shape_of`). SAMPLED: the same, and every column of a sample of the
    rows, chosen by the seed of the run. Where rows change their order without being merged by key
    (clustering, postponed rows), every column as in FULL. FULL: every column of all rows.
    """

    KEYS = "keys"
    SAMPLED = "sampled"
    FULL = "full"

    @classmethod
    def _missing_(cls, value: object) -> ProofMode | None:
        """Raise ValueError that names the modes."""
        names = ", ".join(mode.value for mode in cls)
        renamed = "; the mode cheap is now called keys" if value == "cheap" else ""
        raise ValueError(f"{value!r} is not a proof mode; use one of {names}{renamed}")
