"""This module selects rows of a file by position: the row groups to read, and the rows of their batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass

__all__ = ["Selection", "select_rows"]


@dataclass(frozen=True, slots=True)
class Selection:
    """These are the rows to read of a file."""

    groups: Sequence[int] | None = None
    """These are the row groups to read, None for all."""
    rows: BitMap | None = None
    """These are the rows to keep, by their number among the rows of these groups; None for all."""

    def select(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows of the batches of the groups. It ends with the last selected row."""
        if self.rows is None:
            yield from batches
            return
        start = 0
        last = self.rows.max() if self.rows else -1
        for batch in batches:
            end = start + batch.num_rows
            count = self.rows.range_cardinality(start, end)
            if count == batch.num_rows:
                yield batch
            elif count:
                rows = np.asarray((self.rows & BitMap(range(start, end))).to_array(), np.int64)
                yield batch.take(pa.array(rows - start))
            start = end
            if start > last:
                return


def select_rows(sizes: Sequence[int] | None, groups: Sequence[int] | None, rows: BitMap | None) -> Selection:
    """Return what to read of a file. `sizes` are the rows of each row group; None where it is read from its
    beginning.

    `groups` are those that may be read, in order; None for all. `rows` are the requested positions in the
    file, None for all.
    """
    if rows is None or sizes is None:
        return Selection(groups, rows)
    starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    row_groups: list[int] = []
    numbered = BitMap()
    before = 0
    for group in range(len(sizes)) if groups is None else groups:
        inside = rows & BitMap(range(starts[group], starts[group + 1]))
        if not inside:
            continue
        row_groups.append(group)
        numbered |= inside.shift(before - starts[group])
        before += sizes[group]
    return Selection(row_groups, numbered)
