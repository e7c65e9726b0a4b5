"""This module has the error for a change of which nobody knows whether it took effect."""

from __future__ import annotations

from lakecore.errors import UnavailableError

__all__ = ["UNKNOWN", "LostAnswerError"]

UNKNOWN = "whether it took effect is unknown: check, and repeat it if it did not"
"""It ends the message of a change whose answer was lost."""


class LostAnswerError(UnavailableError):
    """Nobody knows whether a change took effect: its answer was lost, or the server failed."""
