"""This module reads timestamps of ORC files exactly.

A timestamp is stored as two numbers: seconds since 2015 in the zone of the writer (DATA), rounded towards
1970, and nanoseconds (SECONDARY). pyarrow puts them together to nanoseconds since 1970, which hold the years
1677 to 2262 only, and takes the second that a time before 1970 was rounded by from the time in UTC where the
format means the one in the writer's zone. So where the statistics of a column allow such times, its streams
are read apart, each by pyarrow's decoders, from views of the same file: in one the column is a LONG, which
shows the seconds; in the other its seconds are all 2015, which leaves the nanoseconds. Nulls and nesting come
with them. Both numbers are put together here, as Java's reader does. (The library pyorc is built on the same
C++ code and has the same faults with zones and with nanoseconds before 1970; besides, it makes Python objects
of every value.) It costs about twice the decoding of these columns.

Times before 1970 with nanoseconds below 0 are what pyarrow, and so earlier lakecore, wrote: see
`count_unreadable`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.format.arrow_nested import map_leaves
from lakecore.format.orc.footers import (
    Chunks,
    Kind,
    Stream,
    StreamKind,
    Stripe,
    StripeFooter,
    Tail,
    read_tail,
    stripe_footer,
)
from lakecore.format.orc.java_zones import BASE_SECONDS, base_seconds, is_named, offsets

__all__ = ["OrcTimes", "count_unreadable", "has_times"]

_DAY_MS = 86_400_000
_SOUND = (2 * _DAY_MS, 9_214_646_400_000)
"""1970-01-03 to 2262: pyarrow is right about times between, whatever the zone."""
_NANOS = 1_000_000_000
_SECOND_DIGITS = 999_999
_MILLI = 1_000_000
_MOST_SECONDS = 9_223_372_036_853
"""The range to both sides of 1970 that microseconds represent."""
_MAGIC = b"ORC"
_DIRECT, _DIRECT_V2 = 0, 2
_MOST_VALUES = 1 << 31  # of a stripe: damage must not ask for memory
_RUN, _RUN_V1 = 512, 130
_ZEROS, _ZEROS_V1 = bytes([0xC1, 0xFF, 0, 0]), bytes([0x7F, 0, 0])

Numbers = npt.NDArray[np.int64]


def has_times(data_type: pa.DataType) -> bool:
    """Return whether a type contains a timestamp."""
    if pa.types.is_timestamp(data_type):
        return True
    return (
        any(has_times(data_type.field(i).type) for i in range(data_type.num_fields))
        if data_type.num_fields
        else False
    )


@dataclass
class _View:
    """A file made of pieces of another one and of bytes, as pyarrow reads files. Reads of two views of one
    source may interleave.
    """

    source: Any
    closed: bool = False
    _starts: list[int] = field(default_factory=list)
    _pieces: list[tuple[int, int, bytes | None]] = field(default_factory=list)
    _size: int = 0
    _at: int = 0

    def append(self, piece: bytes) -> None:
        self._put(0, len(piece), piece)

    def take(self, start: int, length: int) -> None:
        """Add a piece of the source to the view."""
        if self._pieces and self._pieces[-1][2] is None and sum(self._pieces[-1][:2]) == start:
            before, size, _ = self._pieces[-1]
            self._pieces[-1] = before, size + length, None
            self._size += length
            return
        self._put(start, length, None)

    def _put(self, start: int, length: int, piece: bytes | None) -> None:
        if length:
            self._starts.append(self._size)
            self._pieces.append((start, length, piece))
            self._size += length

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._at + size, self._size)
        out = bytearray()
        while self._at < end:
            i = bisect_right(self._starts, self._at) - 1
            start, length, piece = self._pieces[i]
            skip = self._at - self._starts[i]
            count = min(length - skip, end - self._at)
            data = piece[skip : skip + count] if piece else self.source.read_at(count, start + skip)
            if len(data) != count:
                raise ValueError(f"the file ends at byte {start + skip + len(data)}, within a value")
            out += data
            self._at += count
        return bytes(out)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (self._at if whence == 1 else self._size if whence == 2 else 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def close(self) -> None:
        """Close the view; the source stays open."""
        self.closed = True


@dataclass(frozen=True)
class OrcTimes:
    """This is what is known of the timestamps of one file. `apart` has the ids of the columns to be read
    apart.

    `zones` are those of the writer, by stripes, and `ends` their last rows plus one.
    """

    source: Any
    tail: Tail
    footers: tuple[StripeFooter, ...]
    apart: frozenset[int]
    ends: tuple[int, ...]
    zoned: bool

    @classmethod
    def of(cls, source: Any) -> OrcTimes | None:
        """Return the views of a file, or None if pyarrow is right about all columns. It reads the end of the
        file, and then the footers of all stripes. Raises the errors of `read_tail`.
        """
        tail = read_tail(source)
        if not tail.stripes or not tail.times():
            return None
        is_named_zone = is_named(stripe_footer(source, tail, tail.stripes[-1]).zone)
        apart = frozenset(i for i in tail.times() if not is_named_zone or not _sound(tail, i))
        if not apart:
            return None
        footers = tuple(stripe_footer(source, tail, stripe) for stripe in tail.stripes)
        ends = tuple(np.cumsum([stripe.rows for stripe in tail.stripes]).tolist())
        return cls(
            source, tail, footers, apart, ends, is_named_zone and all(is_named(one.zone) for one in footers)
        )

    @property
    def starts(self) -> tuple[int, ...]:
        """Return the first rows of the stripes."""
        return (0, *self.ends[:-1])

    def columns(self, schema: pa.Schema) -> frozenset[str]:
        """Return the names of the columns that contain a timestamp to be read apart."""
        pairs = zip(schema.names, self.tail.children[0], strict=True)
        return frozenset(name for name, column in pairs if self.apart & self.tail.within(column))

    def open(self, *, nanos: bool) -> Any:
        """Return a fresh view as a file of pyarrow."""
        return pa.PythonFile(self.view(nanos=nanos), mode="r")

    def view(self, *, nanos: bool) -> _View:
        """Return the file with seconds as LONG, or with times in 2015 that have the nanoseconds of those
        stored.
        """
        view = _View(self.source)
        view.append(_MAGIC)
        stripes = []
        for stripe, footer in zip(self.tail.stripes, self.footers, strict=True):
            offset = view.size()
            streams = [self._stream(view, stripe, footer, stream, nanos) for stream in footer.streams]
            zone = footer.zone if self.zoned and not nanos else "GMT"
            last = self.tail.chunks.packed(footer.changed(streams, zone))
            data = view.size() - offset - stripe.index
            view.append(last)
            stripes.append(stripe.moved(offset, stripe.index, data, len(last)))
        view.append(self.tail.with_types({} if nanos else dict.fromkeys(self.apart, Kind.LONG), stripes))
        return view

    def _stream(
        self, view: _View, stripe: Stripe, footer: StripeFooter, stream: Stream, nanos: bool
    ) -> tuple[int, int, int]:
        before = view.size()
        if nanos and stream.kind == StreamKind.DATA and stream.column in self.apart:
            old = footer.encodings[stream.column] == _DIRECT
            view.append(_zeros(self.tail.chunks, self.tail.count(stream.column) or stripe.rows, old))
        else:
            view.take(stripe.offset + stream.offset, stream.length)
        return stream.kind, stream.column, view.size() - before

    def join(self, seconds: pa.RecordBatch, nanos: pa.RecordBatch, row: int) -> pa.RecordBatch:
        """Return the batch that begins with a row of the file, from both views; batches end with stripes.

        Raises ValueError when they do not fit together, OverflowError for times beyond all years.
        """
        stripe = bisect_right(self.ends, row)
        end = row + seconds.num_rows
        if len(seconds) != len(nanos) or stripe == len(self.ends) or end > self.ends[stripe]:
            raise ValueError(f"rows {row} to {end} do not fit the stripes, which end at {self.ends}")
        zone = self.footers[stripe].zone
        apart = dict(zip(nanos.schema.names, nanos.columns, strict=True))
        columns = [
            _join(column, apart[name], zone) if name in apart else column
            for name, column in zip(seconds.schema.names, seconds.columns, strict=True)
        ]
        names = seconds.schema.names
        return pa.RecordBatch.from_arrays(columns, names=names)


def count_unreadable(nanos: pa.Array) -> int:
    """Return the number of times of a column, in the view of nanoseconds, that Java cannot read.

    Pyarrow stores times before 1970 with nanoseconds below 0; Java takes those that are whole milliseconds.
    """
    data_type = nanos.type
    if pa.types.is_struct(data_type):
        return sum(count_unreadable(nanos.field(i)) for i in range(data_type.num_fields))
    if pa.types.is_map(data_type):
        return count_unreadable(nanos.keys) + count_unreadable(nanos.items)
    if pa.types.is_list(data_type):
        return count_unreadable(nanos.values)
    if not pa.types.is_timestamp(data_type):
        return 0
    numbers = _nanos(nanos)
    return int(np.count_nonzero((numbers > -_NANOS) & (numbers < 0) & (numbers % _MILLI != 0)))


def _sound(tail: Tail, column: int) -> bool:
    if tail.count(column) == 0:
        return True
    span = tail.span(column)
    return span is not None and _SOUND[0] <= span[0] and span[1] <= _SOUND[1]


def _zeros(chunks: Chunks, count: int, old: bool) -> bytes:
    """Return at least so many zeros as a stream of seconds: runs of the second (or first) run length
    encoding.
    """
    count = min(count, _MOST_VALUES)
    return chunks.packed(_ZEROS_V1 * (count // _RUN_V1 + 1) if old else _ZEROS * (count // _RUN + 1))


def _join(seconds: pa.Array, nanos: pa.Array, zone: str) -> pa.Array:
    data_type = seconds.type
    if data_type == nanos.type:
        return seconds
    if pa.types.is_timestamp(nanos.type):
        return _times(seconds, nanos, "" if nanos.type.tz else zone)
    if pa.types.is_struct(data_type):
        parts = iter([nanos.field(i) for i in range(data_type.num_fields)])
    else:
        parts = iter([nanos.keys, nanos.items] if pa.types.is_map(data_type) else [nanos.values])
    return map_leaves(seconds, lambda child: _join(child, next(parts), zone))


def instants(stored: Numbers, nanos: Numbers, zone: str) -> tuple[Numbers, Numbers]:
    """Return stored numbers as seconds since 1970 (of UTC) and nanoseconds after them, 0 to 999,999,999."""
    seconds = stored + base_seconds(zone)
    seconds = seconds - ((seconds < 0) & (nanos > _SECOND_DIGITS))
    return seconds + nanos // _NANOS, nanos % _NANOS


def _times(stored: pa.Array, nanos: pa.Array, zone: str) -> pa.Array:
    """Return the times in nanoseconds if these can represent all of them, else in microseconds, with the
    digits below cut.

    (A column of nine digits is refused then, see `canonical`; one of fewer has none below.)
    """
    null = stored.is_null().to_numpy(zero_copy_only=False)
    numbers = stored.fill_null(0).to_numpy(zero_copy_only=False)
    seconds, parts = instants(numbers, _nanos(nanos), zone)
    if zone:
        seconds = seconds + offsets(zone, seconds)
    seconds, parts = np.where(null, 0, seconds), np.where(null, 0, parts)
    unit, values = "ns", seconds * _NANOS + parts
    rough = seconds.astype(np.float64) * _NANOS + parts
    if np.any(np.abs(rough - values) > _NANOS):  # it went round
        if np.any(np.abs(seconds) > _MOST_SECONDS):
            raise OverflowError("a timestamp does not fit into microseconds")
        unit, values = "us", seconds * 1_000_000 + parts // 1000
    kind = pa.timestamp(unit, nanos.type.tz)
    return pa.array(values, pa.int64(), mask=null if null.any() else None).view(kind)


def _nanos(times: pa.Array) -> Numbers:
    """Return the nanoseconds of times in 2015, below 0 for those before it."""
    numbers: Numbers = times.view(pa.int64()).fill_null(BASE_SECONDS * _NANOS).to_numpy(zero_copy_only=False)
    return numbers - BASE_SECONDS * _NANOS
