"""This module cuts sorted runs into key windows: all rows of a key, from every run, are in one window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.merge.key_columns import Keys, KeyTuple

__all__ = ["Part", "windows"]


@dataclass(frozen=True, slots=True)
class Part:
    """These rows of run number `run` fall into a window, with their keys."""

    batch: pa.RecordBatch
    keys: Keys
    run: int = 0


class _Cursor:
    """The rest of a run that is not read yet, one batch at a time."""

    def __init__(self, number: int, batches: Iterator[pa.RecordBatch], key_columns: Sequence[str]) -> None:
        self._number = number
        self._batches = batches
        self._key_columns = key_columns
        self._before: KeyTuple | None = None
        self.part: Part | None = None
        self.advance()

    def advance(self) -> None:
        """Load the next batch with rows; `part` is None at the end of the run."""
        self.part = None
        for batch in self._batches:
            if batch.num_rows:
                keys = Keys.of([batch.column(name) for name in self._key_columns])
                self._check(keys)
                self.part = Part(batch, keys, self._number)
                return

    def take(self, bound: KeyTuple) -> Part | None:
        """Remove and return the rows up to `bound`; None when there are none."""
        assert self.part is not None
        count = self.part.keys.count_up_to(bound)
        if count == 0:
            return None
        batch, keys = self.part.batch, self.part.keys
        if count == batch.num_rows:
            part, self.part = self.part, None
            return part
        self.part = Part(batch.slice(count), keys.slice(count, len(keys)), self._number)
        return Part(batch.slice(0, count), keys.slice(0, count), self._number)

    def _check(self, keys: Keys) -> None:
        in_order = self._before is None or self._before < keys.first
        if not in_order or not keys.strictly_increasing():
            raise CorruptDataError(
                f"sorted run {self._number}", f"keys do not increase strictly in the batch from {keys.first}"
            )
        self._before = keys.last


def windows(runs: Sequence[Iterator[pa.RecordBatch]], key_columns: Sequence[str]) -> Iterator[list[Part]]:
    """Yield the parts of consecutive windows, each in the order of `runs`. At most one batch per run is in
    memory.

    A window ends at the smallest last key among the loaded batches, so every other run has already shown all
    its rows up to there. Raises CorruptDataError for a run whose keys do not increase.
    """
    cursors = [_Cursor(number, iter(run), key_columns) for number, run in enumerate(runs)]
    while True:
        live = [(cursor, cursor.part) for cursor in cursors if cursor.part is not None]
        if not live:
            return
        bound = min(part.keys.last for _, part in live)
        parts = [part for cursor, _ in live if (part := cursor.take(bound)) is not None]
        yield parts
        for cursor, _ in live:
            if cursor.part is None:
                cursor.advance()
