"""This module reads the stored column statistics of many files: serialised rows in one buffer, and null
counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.byte_words import WORD_PADDING
from lakecore.metadata.manifest.data_file import DataFile, SimpleStats

__all__ = ["StatsPart", "StatsRows"]

I64: TypeAlias = npt.NDArray[np.int64]
Ints: TypeAlias = npt.NDArray[Any]


class StatsPart(Enum):
    """It says which statistics of a file are meant: those of its key columns, or of all its columns."""

    KEY = "_KEY_STATS"
    VALUE = "_VALUE_STATS"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StatsRows:
    """These are column statistics of many files. The bounds of file i are the rows
    `buffer[minimum[i]:][:minimum_length[i]]` and `buffer[maximum[i]:][:maximum_length[i]]`.
    """

    buffer: npt.NDArray[np.uint8]
    """These are the serialised rows; it ends with WORD_PADDING spare bytes."""
    minimum: I64
    minimum_length: I64
    maximum: I64
    maximum_length: I64
    null_counts: I64
    """`null_counts[i, c]` belongs to column c of the row; -1 if unknown."""
    column_code: Ints
    columns: tuple[tuple[str, ...] | None, ...]
    """`columns[column_code[i]]` names the columns; None stands for all columns of the file's schema, in
    order.
    """

    def __len__(self) -> int:
        return len(self.minimum)

    @classmethod
    def from_files(cls, files: Sequence[DataFile], part: StatsPart) -> StatsRows:
        """Copy the statistics of rows."""
        keyed = part is StatsPart.KEY
        stats = [file.key_stats if keyed else file.value_stats for file in files]
        codes: dict[tuple[str, ...] | None, int] = {}
        column_code = [codes.setdefault(None if keyed else f.value_stats_cols, len(codes)) for f in files]
        parts = [row for item in stats for row in (item.min_values, item.max_values)]
        lengths = np.fromiter(map(len, parts), np.int64, len(parts))
        starts = np.cumsum(lengths) - lengths
        return cls(
            buffer=np.frombuffer(b"".join(parts) + bytes(WORD_PADDING), np.uint8),
            minimum=starts[0::2],
            minimum_length=lengths[0::2],
            maximum=starts[1::2],
            maximum_length=lengths[1::2],
            null_counts=_null_counts(stats),
            column_code=np.array(column_code, np.int32),
            columns=tuple(codes),
        )


def _null_counts(stats: Sequence[SimpleStats]) -> I64:
    width = max((len(item.null_counts) for item in stats), default=0)
    out = np.full((len(stats), width), -1, np.int64)
    for row, item in enumerate(stats):
        out[row, : len(item.null_counts)] = [-1 if count is None else count for count in item.null_counts]
    return out
