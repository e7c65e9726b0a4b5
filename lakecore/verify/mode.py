"""How much a proof looks at. Imports nothing: commands know it before they begin."""

from __future__ import annotations

from enum import Enum

__all__ = ["ProofMode"]


class ProofMode(Enum):
    """How much of a row the digest covers.

    CHEAP: key, sequence fields, sequence number, row kind and the column of record-level expiry; of an append
    table a few columns (`shape_of`).
    FULL: every column of inputs and outputs.
    """

    CHEAP = "cheap"
    FULL = "full"
