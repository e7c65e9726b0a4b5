"""Merge engine first-row: the first row of a key stays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.merge.groups import NO_ROW, FoldResult, MultiRowGroups, PickedValues

__all__ = ["FirstRow"]


@dataclass(frozen=True, slots=True)
class FirstRow:
    """This is the merge engine first-row. `table` is its name for messages. `ignore_retracts` is the
    option `ignore-delete`; without it a retraction is an error.
    """

    table: str
    ignore_retracts: bool = False

    @property
    def keeps_single(self) -> bool:
        """Return True: the first of one row is that row."""
        return True

    def needed(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return no columns, because the order of rows is enough."""
        return ()

    def fold(self, several: MultiRowGroups, columns: Sequence[str]) -> FoldResult:
        """Return the first row of each group. Raises UnsupportedError for -U and -D, unless they are
        ignored.
        """
        retracts = several.retracts
        if not retracts.any():
            first = several.starts[:-1]
            return FoldResult(dict.fromkeys(columns, PickedValues(several.rows[first])), several.kinds[first])
        if not self.ignore_retracts:
            raise UnsupportedError(
                f"table {self.table}: merge-engine=first-row accepts no -U and -D rows; set option "
                "ignore-delete=true to leave them out"
            )
        first = np.full(several.count, -1, np.int64)
        counted = np.flatnonzero(~retracts)[::-1]
        first[several.groups[counted]] = counted
        kinds = np.where(first < 0, NO_ROW, several.kinds[first])
        return FoldResult(dict.fromkeys(columns, PickedValues(several.rows[first])), kinds)
