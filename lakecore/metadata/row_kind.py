"""This module defines the four kinds of a row in a change stream, as stored in `_VALUE_KIND`, and the system
columns.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "KEY_FIELD_ID_START",
    "KEY_PREFIX",
    "KIND_FIELD_ID",
    "KIND_NAME",
    "ROW_ID_FIELD_ID",
    "ROW_ID_NAME",
    "SEQUENCE_FIELD_ID",
    "SEQUENCE_NAME",
    "SYMBOLS",
    "RowKind",
    "is_retract",
]

KEY_PREFIX = "_KEY_"
SEQUENCE_NAME = "_SEQUENCE_NUMBER"
KIND_NAME = "_VALUE_KIND"
KEY_FIELD_ID_START = 1073741823
SEQUENCE_FIELD_ID = 2147483646
KIND_FIELD_ID = 2147483645
ROW_ID_NAME = "_ROW_ID"
ROW_ID_FIELD_ID = 2147483642


SYMBOLS = ("+I", "-U", "+U", "-D")
"""These are the texts of the kinds, by their numbers."""


class RowKind(IntEnum):
    """This is the kind of a row in a change stream: +I, -U, +U or -D."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def symbol(self) -> str:
        return SYMBOLS[self]

    @classmethod
    def from_symbol(cls, symbol: str) -> RowKind:
        """Return the kind with a symbol. Raises ValueError for anything but +I, -U, +U, -D."""
        return cls(SYMBOLS.index(symbol))

    @property
    def retracts(self) -> bool:
        return self in (RowKind.UPDATE_BEFORE, RowKind.DELETE)


def is_retract(kinds: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which rows retract an earlier one: those of the odd kinds."""
    return (kinds & 1).astype(np.bool_)
