"""This module looks up the keys of a merge in the levels above it: a second, forward-only reader that runs
with the merge.

Rule of the format: for a key that no file of the merge has on a level above 0, its old row is that of the
first level that has it. Levels are read in key order along with the windows of the merge, only in files that
overlap new rows, and of these only the pages whose bounds enclose a new key. Memory: a batch of each level.
Cost: at worst one reading of the overlapping files, at best one page a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.lookup.located import FileRows, LocatedRows, LookupSource
from lakecore.merge.key_columns import Keys, KeyTuple, concat
from lakecore.merge.row_order import order_rows
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.read.file.sizes import ReadSizes

__all__ = ["LevelsAbove", "LookupResult"]


@dataclass(frozen=True, slots=True)
class LookupResult:
    """These rows were looked up: they are of one file and level, in key order, with their positions in the
    file.
    """

    file: DataFile
    batch: pa.RecordBatch
    keys: Keys
    positions: np.ndarray[Any, Any]

    def rows(self, picked: np.ndarray[Any, Any]) -> LookupResult:
        """Select some of the rows."""
        keys = Keys([_pick(column, picked) for column in self.keys.columns])
        return LookupResult(self.file, self.batch.take(pa.array(picked)), keys, self.positions[picked])


class LevelsAbove:
    """These are the levels above one merge, nearest first. Use it as a context manager: it holds open
    files.
    """

    def __init__(
        self,
        source: LookupSource,
        levels: Sequence[Sequence[DataFile]],
        columns: Sequence[str],
        sizes: ReadSizes,
    ) -> None:
        self._keys = source.ctx.schema.trimmed_primary_keys
        self._columns = tuple(columns)
        self._sizes = sizes
        self._levels = [[FileRows(source, file) for file in level] for level in levels]
        self._cursors: list[_Cursor] = []

    def __enter__(self) -> LevelsAbove:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            for cursor in self._cursors:
                stack.callback(cursor.close)

    def expect(self, keys: Iterable[pa.RecordBatch]) -> None:
        """Announce the keys that will be looked up, each batch in key order: pages without them need not be
        read.
        """
        files = [rows for level in self._levels for rows in level]
        for rows in files:
            rows.read_page_index()
        for batch in keys:
            for rows in files:
                rows.mark(batch)

    def find(self, sought: Sequence[Keys], excluded: Sequence[Keys], bound: KeyTuple) -> list[LookupResult]:
        """Return, for each key of `sought` that is not among `excluded`, its row on the nearest
        level.

        All keys are up to `bound` and above that of the last call; each sequence of them is in key order. The
        farthest level comes first.
        """
        if not self._cursors:
            self._cursors = [_Cursor(self._read(level), self._keys) for level in self._levels]
        excluded_keys = list(excluded)
        results: list[LookupResult] = []
        for cursor in self._cursors:
            hits = [
                hit for part in cursor.take(bound) if (hit := _hits(part, sought, excluded_keys)) is not None
            ]
            excluded_keys += [hit.keys for hit in hits]
            results = hits + results
        return results

    def _read(self, level: Sequence[FileRows]) -> Iterator[LocatedRows]:
        for rows in level:
            yield from rows.read(self._columns, self._sizes)


class _Cursor:
    """The rest of a level that is not read yet."""

    def __init__(self, located: Iterator[LocatedRows], keys: Sequence[str]) -> None:
        self._located = located
        self._keys = keys
        self._part: LookupResult | None = None

    def take(self, bound: KeyTuple) -> Iterator[LookupResult]:
        """Remove the rows up to `bound`."""
        while (part := self._part or self._next()) is not None:
            count = part.keys.count_up_to(bound)
            if count < len(part.keys):
                self._part = _slice(part, count, len(part.keys))
                if count:
                    yield _slice(part, 0, count)
                return
            self._part = None
            yield part

    def close(self) -> None:
        close = getattr(self._located, "close", None)
        if close is not None:
            close()

    def _next(self) -> LookupResult | None:
        for rows in self._located:
            if rows.batch.num_rows:
                keys = Keys.of([rows.batch.column(name) for name in self._keys])
                return LookupResult(rows.file, rows.batch, keys, rows.positions)
        return None


def _slice(part: LookupResult, start: int, stop: int) -> LookupResult:
    return LookupResult(
        part.file,
        part.batch.slice(start, stop - start),
        part.keys.slice(start, stop),
        part.positions[start:stop],
    )


def _hits(part: LookupResult, included: Sequence[Keys], excluded: Sequence[Keys]) -> LookupResult | None:
    """Return the rows whose key is among `included` and not among `excluded`."""
    hit = np.zeros(len(part.keys), bool)
    for keys in included:
        hit |= _members(part.keys, keys)
    for keys in excluded:
        if not hit.any():
            return None
        hit &= ~_members(part.keys, keys)
    return part.rows(np.flatnonzero(hit)) if hit.any() else None


def _members(have: Keys, others: Keys) -> Any:
    """Mark those of `have` that are among `others`; both are strictly increasing."""
    if len(have.columns) == 1 and isinstance(have.columns[0], np.ndarray):
        column, values = have.columns[0], others.columns[0]
        places = np.minimum(np.searchsorted(column, values), len(column) - 1)
        hit = np.zeros(len(column), bool)
        hit[places[column[places] == values]] = True
        return hit
    columns = [concat([a, b]) for a, b in zip(have.columns, others.columns, strict=True)]
    ordered = order_rows(columns, ())
    hit = np.zeros(len(have), bool)
    hit[ordered.rows[:-1][ordered.same]] = True
    return hit


def _pick(column: Any, rows: Any) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else column.take(pa.array(rows))
