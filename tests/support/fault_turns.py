"""Which operations of storage fail in a campaign that tries several ways of failing. Pure but for the environment.

With LAKECORE_FAULTS=all (`make faults`) each operation fails in each way. Otherwise the ways take turns, so that each operation
fails in one of them: neighbours are alike, and a bug at one of them is met in some way.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence

from tests.support.fault_fs import FaultMode

__all__ = ["EVERY", "failing_operations"]

EVERY = os.environ.get("LAKECORE_FAULTS") == "all"


def failing_operations(mode: FaultMode, modes: Sequence[FaultMode], first: int = 1) -> Iterator[int]:
    """Yield without end the numbers of the operations that fail in this way, which is one of `modes`."""
    return itertools.count(first) if EVERY else itertools.count(first + modes.index(mode), len(modes))
