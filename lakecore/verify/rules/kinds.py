"""This module has the row kinds that retract, by the numbers of the format; it shares them with no merge.
It is pure.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakecore.verify.rules.order import Bools

__all__ = ["retracting"]

_UPDATE_BEFORE, _DELETE = 1, 3


def retracting(kinds: Any) -> Bools:
    """Mark rows of kind -U and -D."""
    kinds_array = np.asarray(kinds)
    return np.asarray((kinds_array == _UPDATE_BEFORE) | (kinds_array == _DELETE))
