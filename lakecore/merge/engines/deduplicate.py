"""Merge engine deduplicate: the last row of a key stays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakecore.data_class import dataclass
from lakecore.merge.groups import NO_ROW, FoldResult, MultiRowGroups, PickedValues

__all__ = ["Deduplicate"]


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """`ignore_retracts`: option `ignore-delete`: rows of kind -U and -D do not count."""

    ignore_retracts: bool = False

    @property
    def keeps_single(self) -> bool:
        """Return True: the last of one row is that row."""
        return True

    def needed(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return no columns, because the order of rows is enough."""
        return ()

    def fold(self, several: MultiRowGroups, columns: Sequence[str]) -> FoldResult:
        """Return the last row of each group that counts."""
        last = several.starts[1:] - 1
        if self.ignore_retracts and several.retracts.any():
            counted = np.flatnonzero(~several.retracts)
            last = np.full(several.count, -1, np.int64)
            last[several.groups[counted]] = counted
        kinds = np.where(last < 0, NO_ROW, several.kinds[last])
        return FoldResult(dict.fromkeys(columns, PickedValues(several.rows[last])), kinds)
