"""This module looks up the keys of a merge in files that are not in key order (option
`pk-clustering-override`).

The expected keys are marked in a bit field by their hash. Then the key columns of each file are read once;
rows whose bit is set are read completely, sorted by key (in a buffer that spills to local disk) and compared
exactly as the merge goes on. Memory: 2 to 4 bytes per expected key, 128 MB at most, and the buffer; the more
keys beyond some 60 million, the more rows are sorted for nothing. Cost: the key columns of all files, and the
row groups with a row that may match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.lookup.levels import LookupResult
from lakecore.lookup.located import LookupSource
from lakecore.merge.key_columns import Keys, KeyTuple, concat
from lakecore.merge.passes import Scratch
from lakecore.merge.row_order import Bools, order_rows
from lakecore.merge.row_sorter import RowSorter, keyed
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.read.file.file_index import IndexMatch as Positions
from lakecore.read.file.file_reader import FileRows, read_file
from lakecore.row.hashing import hash_rows
from lakecore.row.sort_rule import OrderStrategy, SortRule

__all__ = ["ScatteredRows"]

_FILE_NAME = "__lakecore_file"
_POSITION_NAME = "__lakecore_position"
_BUFFER_BYTES = 32 << 20
_BITS_A_KEY = 16
_LEAST_BITS = 1 << 16
_MOST_BITS = 1 << 30
_SPREAD = np.uint32(0x9E3779B1)


class ScatteredRows:
    """It looks up rows of `files` by key. Call `expect` first, then `find` with keys that rise from call
    to call.
    """

    def __init__(
        self, source: LookupSource, files: Sequence[DataFile], columns: Sequence[str], scratch: Scratch
    ) -> None:
        schema = source.ctx.schema
        self._source = source
        self._files = tuple(files)
        self._columns = tuple(columns)
        self._keys = schema.trimmed_primary_keys
        self._key_type = schema.key_type
        self._sorter = RowSorter(scratch, _BUFFER_BYTES)
        self._marks = _Marks(0)
        self._cursor: _Cursor | None = None

    def __enter__(self) -> ScatteredRows:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: files are open only within a call, and the scratch directory belongs to the caller."""

    def expect(self, keys: Iterable[pa.RecordBatch], count: int) -> None:
        """Announce the keys that will be looked up, some `count` of them, in any order."""
        self._marks = _Marks(count)
        for batch in keys:
            self._marks.add(self._hashes(batch))

    def find(self, sought: Sequence[Keys], excluded: Sequence[Keys], bound: KeyTuple) -> list[LookupResult]:
        """Return the rows of the keys `sought`, by file. All keys are up to `bound` and above that of the
        last call.

        `excluded` is empty (levels of such files have no order). Several rows of a key, which compactions of
        Java Paimon 1.4 have left (keys of several columns), are all found.
        """
        if excluded:
            raise ValueError("a lookup in files that are not sorted by key accepts no known rows")
        if self._cursor is None:
            self._cursor = _Cursor(self._sort(), self._keys)
        results: list[LookupResult] = []
        for batch, keys in self._cursor.take(bound):
            hit = np.zeros(len(keys), bool)
            for some in sought:
                hit |= _members(keys, some)
            results += self._by_file(batch, np.flatnonzero(hit))
        return results

    def _by_file(self, batch: pa.RecordBatch, rows: npt.NDArray[np.int64]) -> Iterator[LookupResult]:
        numbers = batch.column(_FILE_NAME).to_numpy()[rows]
        positions = batch.column(_POSITION_NAME).to_numpy()[rows]
        whole = batch.select(list(self._columns))
        for number in np.unique(numbers).tolist():
            mine = numbers == number
            part = whole.take(pa.array(rows[mine]))
            keys = Keys.of([part.column(name) for name in self._keys])
            yield LookupResult(self._files[number], part, keys, positions[mine])

    def _sort(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that may match, in key order."""
        rule = SortRule(OrderStrategy.ORDER, self._keys)
        for number, file in enumerate(self._files):
            for batch in self._candidates(number, file):
                self._sorter.add(keyed(batch, rule))
        self._marks = _Marks(0)
        yield from self._sorter.sorted()

    def _candidates(self, number: int, file: DataFile) -> Iterator[pa.RecordBatch]:
        ctx, bucket_dir = self._source.ctx, self._source.bucket_dir
        rows = BitMap()
        start = 0
        for batch in read_file(ctx, bucket_dir, file, self._keys):
            hit = np.flatnonzero(self._marks.has(self._hashes(batch))) + start
            rows |= BitMap(hit.astype(np.uint32))
            start += batch.num_rows
        rows -= self._source.deleted(file) or BitMap()
        if not rows:
            return
        positions = np.asarray(rows.to_array(), np.int64)
        offset = 0
        for batch in read_file(ctx, bucket_dir, file, self._columns, FileRows(index_match=Positions(rows))):
            count = batch.num_rows
            numbers = pa.array(np.full(count, number, np.int32))
            places = pa.array(positions[offset : offset + count])
            yield batch.append_column(_FILE_NAME, numbers).append_column(_POSITION_NAME, places)
            offset += count

    def _hashes(self, batch: pa.RecordBatch) -> npt.NDArray[np.uint32]:
        columns = [batch.column(name) for name in self._keys]
        return hash_rows(columns, self._key_type).view(np.uint32)


class _Marks:
    """A bit field over hashes: it contains what was added, and about one in sixteen other hashes."""

    def __init__(self, count: int) -> None:
        bits = min(max(1 << (count * _BITS_A_KEY).bit_length(), _LEAST_BITS), _MOST_BITS)
        self._shift = np.uint32(32 - (bits.bit_length() - 1))
        self._bytes = np.zeros(bits // 8, np.uint8)

    def add(self, hashes: npt.NDArray[np.uint32]) -> None:
        places = self._places(hashes)
        np.bitwise_or.at(self._bytes, places >> 3, np.uint8(1) << (places & 7).astype(np.uint8))

    def has(self, hashes: npt.NDArray[np.uint32]) -> Bools:
        places = self._places(hashes)
        return np.asarray((self._bytes[places >> 3] >> (places & 7).astype(np.uint8)) & 1, bool)

    def _places(self, hashes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Return bit positions. Keys of one bucket share the low bits of their hashes: the high bits of a
        product count.
        """
        return np.asarray((hashes * _SPREAD) >> self._shift, np.uint32)


@dataclass(slots=True)
class _Cursor:
    """The unread rest of rows in key order."""

    batches: Iterator[pa.RecordBatch]
    names: tuple[str, ...]
    rest: tuple[pa.RecordBatch, Keys] | None = None

    def take(self, bound: KeyTuple) -> Iterator[tuple[pa.RecordBatch, Keys]]:
        """Remove the rows up to `bound`."""
        while (part := self.rest or self._next()) is not None:
            batch, keys = part
            count = keys.count_up_to(bound)
            self.rest = (batch.slice(count), keys.slice(count, len(keys))) if count < len(keys) else None
            if count:
                yield batch.slice(0, count), keys.slice(0, count)
            if self.rest is not None:
                return

    def _next(self) -> tuple[pa.RecordBatch, Keys] | None:
        batch = next(self.batches, None)
        if batch is None:
            return None
        return batch, Keys.of([batch.column(name) for name in self.names])


def _members(have: Keys, others: Keys) -> Bools:
    """Mark those of `have` that are among `others`."""
    columns = [concat([a, b]) for a, b in zip(have.columns, others.columns, strict=True)]
    ordered = order_rows(columns, ())
    key = np.concatenate(([0], np.cumsum(~ordered.same)))
    is_wanted = np.zeros(int(key[-1]) + 1, bool)
    is_wanted[key[ordered.rows >= len(have)]] = True
    mine = ordered.rows < len(have)
    hit = np.zeros(len(have), bool)
    hit[ordered.rows[mine]] = is_wanted[key[mine]]
    return hit
