"""This module writes the stripes of ORC files with times before 1970 that have parts of a millisecond, as
Java reads them.

pyarrow stores the nanoseconds of such times below 0, which only itself takes. So a stripe is written twice by
pyarrow, in memory: as it is, but with every timestamp as the LONG of its seconds (M); and the columns of
timestamps once more with times of 2015 that have the same nanoseconds (N). The stripe is that of M with the
streams of nanoseconds of N; row indexes have the positions of both. Bounds in indexes and statistics are
those of the seconds, a second wider than the times.

What has no form in the format: the last second before 1970 of the writer's zone with parts of a millisecond.
Its seconds are rounded to 0, from where all readers count on; Java's writer makes of it a time after 1970.
(Whole milliseconds have the one that pyarrow makes, which Java's reader takes.) Wall clocks are the same in
every zone, so a stripe with such a time says that it was written in another one. Instants know UTC only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.errors import UnsupportedError
from lakecore.format.arrow_nested import map_leaves
from lakecore.format.orc.footers import (
    Stream,
    StreamKind,
    Tail,
    read_tail,
    stripe_footer,
)
from lakecore.format.orc.java_zones import BASE_SECONDS
from lakecore.format.orc.protobuf import Message, signed, zigzag
from lakecore.format.orc.times import has_times

__all__ = ["BufferedTail", "OrcStripes", "is_early"]

_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECOND, _MILLI = 10**9, 10**6
_ONE_STRIPE = 1 << 40
_RAW_BYTES = 64 << 20
_POSITIONS = 3  # of a stream of numbers in compressed chunks; one less without compression
# numbers of orc_proto
_FT_CONTENT, _FT_STRIPES, _FT_ROWS, _FT_STATISTICS = 2, 3, 6, 7
_STATS_COUNT, _STATS_INTS, _STATS_TIMES, _STATS_NULL = 1, 2, 9, 10
_ENTRY_POSITIONS, _ENTRY_STATS = 1, 2
_HOUR, _DAY = 3600, 86_400
_ZONES = {0: "GMT"} | {hours * _HOUR: f"Etc/GMT{-hours:+d}" for hours in (*range(1, 15), *range(-12, 0))}
"""Names of zones by seconds to add to UTC. (They count the other way round.)"""

Make = Callable[[Any, int], Any]


def is_early(column: pa.Array) -> bool:
    """Return whether there is a time before 1970 with a part of a millisecond. It costs a pass over the
    times, at any depth.
    """
    data_type = column.type
    if pa.types.is_struct(data_type):
        return any(is_early(leaf) for leaf in column.flatten())
    if pa.types.is_map(data_type):
        return is_early(column.keys) or is_early(column.items)
    if pa.types.is_list(data_type) or pa.types.is_fixed_size_list(data_type):
        return is_early(column.flatten())
    if not pa.types.is_timestamp(data_type) or _TICKS[data_type.unit] <= _TICKS["ms"]:
        return False
    ticks = column.drop_null().view(pa.int64()).to_numpy()
    early = ticks[ticks < 0]
    return bool((early % (_TICKS[data_type.unit] // _TICKS["ms"])).any())


class BufferedTail:
    """These are the last bytes of a file, as `read_tail` reads it. `start` is where they begin."""

    def __init__(self, start: int, data: bytes) -> None:
        self._start = start
        self._data = data

    def size(self) -> int:
        return self._start + len(self._data)

    def read_at(self, count: int, at: int) -> bytes:
        """Return bytes of the file; zeros stand for those that are not buffered."""
        missing = max(min(self._start - at, count), 0)
        first = max(at - self._start, 0)
        return bytes(missing) + self._data[first : first + count - missing]


class OrcStripes:
    """It writes the rest of a file after other stripes. It keeps one stripe, encoded, in memory, and some
    columns of it twice.

    `write` writes to the file. `head` is the end that the file would have had before; `make` returns a
    pyarrow writer to a sink, with stripes of a size. `stripe_bytes` is the number of bytes of rows in a
    stripe, before they are encoded.
    """

    def __init__(self, write: Callable[[bytes], Any], head: Tail, make: Make, stripe_bytes: int) -> None:
        self._limit = min(_RAW_BYTES, stripe_bytes)
        self._zone = 0
        self._write = write
        self._head = head
        self._make = make
        self._offset = head.start
        self._times = frozenset(head.times())
        self._stripes = [stripe.raw for stripe in head.stripes]
        self._rows = head.footer.number(_FT_ROWS)
        self._details = head.metadata.all(1)
        self._statistics = [head.footer.messages(_FT_STATISTICS)] if self._rows else []
        self._open: tuple[_Part, _Part] | None = None
        self._raw = 0

    @property
    def pending(self) -> int:
        """Return the bytes of rows that wait for the end of their stripe."""
        return self._raw

    @property
    def written(self) -> int:
        """Return the bytes of the file written so far."""
        return self._offset

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows. Raises UnsupportedError for a time that has no form."""
        names = zip(batch.schema.names, batch.columns, strict=True)
        timed = [name for name, column in names if has_times(column.type)]
        self._choose_zone(batch, timed)
        seconds = _change(batch, batch.schema.names, partial(_seconds, zone=self._zone))
        nanos = _change(batch, timed, partial(_nanos, zone=self._zone))
        if self._open is None:
            self._open = _Part(self._make, seconds.schema), _Part(self._make, nanos.schema)
        for part, rows in zip(self._open, (seconds, nanos), strict=True):
            part.writer.write(pa.Table.from_batches([rows]))
        self._rows += batch.num_rows
        self._raw += batch.nbytes
        if self._raw >= self._limit:
            self.cut()

    def _choose_zone(self, batch: pa.RecordBatch, timed: Sequence[str]) -> None:
        """Choose a zone without a time in its last second before 1970. It ends the stripe to change the
        zone.
        """
        zones: set[int] = set()

        def note(_: str, times: pa.Array) -> pa.Array:
            if times.type.tz is None:
                seconds, nanos, _ = _split(times)
                parts = (nanos >= _MILLI) & (nanos % _MILLI != 0) & (np.abs(seconds) < _DAY)
                zones.update(np.unique(seconds[parts] + 1).tolist())
            return times

        _change(batch, timed, note)
        if self._zone in zones:
            self.cut()
            self._zone = next((zone for zone in _ZONES if zone not in zones), 0)

    def cut(self) -> None:
        """End the stripe, if one is open."""
        if self._open is None:
            return
        main, other = (part.finished() for part in self._open)
        self._open, self._raw = None, 0
        both = _MergedStripe(main, other, self._times, _ZONES[self._zone])
        data = both.stripe()
        (stripe,) = main.tail.stripes
        self._write(data)
        sizes = both.index, len(data) - both.index - both.footer, both.footer
        self._stripes.append(stripe.moved(self._offset, *sizes))
        self._offset += len(data)
        statistics = [both.statistics(i, one) for i, one in enumerate(main.statistics)]
        self._statistics.append(statistics)
        self._details.append(Message().extend(1, statistics).encode())

    def end(self) -> bytes:
        """Return the last bytes of the file."""
        self.cut()
        footer = self._head.footer.without(_FT_CONTENT, _FT_STRIPES, _FT_ROWS, _FT_STATISTICS)
        footer.add(_FT_CONTENT, self._offset - len(b"ORC")).extend(_FT_STRIPES, self._stripes)
        footer.add(_FT_ROWS, self._rows)
        footer.extend(_FT_STATISTICS, _total(self._statistics))
        metadata = Message()
        for one in self._details:
            metadata.add(1, one)
        return self._head.ended(footer, metadata)

    def abort(self) -> None:
        """Forget what is open."""
        for part in self._open or ():
            part.writer.is_open = False


class _Part:
    """A file of one stripe that is being written in memory."""

    def __init__(self, make: Make, schema: pa.Schema) -> None:
        self.sink = pa.BufferOutputStream()
        self.schema = schema
        self.writer = make(self.sink, _ONE_STRIPE)

    def finished(self) -> _Stripe:
        self.writer.close()
        return _Stripe(self.sink.getvalue().to_pybytes())


class _Stripe:
    """The stripe of a file that is in memory."""

    def __init__(self, data: bytes) -> None:
        source = BufferedTail(0, data)
        self._data = data
        self.tail = read_tail(source)
        (self.place,) = self.tail.stripes
        self.footer = stripe_footer(source, self.tail, self.place)
        self.statistics = self.tail.footer.messages(_FT_STATISTICS)

    def bytes_of(self, stream: Stream) -> bytes:
        start = self.place.offset + stream.offset
        return self._data[start : start + stream.length]

    def find(self, kind: int, column: int) -> bytes:
        """Return the bytes of a stream, which are empty when there is none."""
        stripes = [
            self.bytes_of(one) for one in self.footer.streams if (one.kind, one.column) == (kind, column)
        ]
        return stripes[0] if stripes else b""


class _MergedStripe:
    """One stripe of both. `times`: ids of its timestamps. `index`, `footer`: sizes, once it is made."""

    def __init__(self, main: _Stripe, other: _Stripe, times: frozenset[int], zone: str) -> None:
        self._zone = zone
        self._main = main
        self._other = other
        self._columns = {
            column: columns for column, columns in _pairs(main.tail, other.tail) if column in times
        }
        self.index = 0
        self.footer = 0

    def stripe(self) -> bytes:
        out, streams = bytearray(), []
        for stream in self._main.footer.streams:
            for kind, data in self._streams(stream):
                streams.append((kind, stream.column, len(data)))
                out += data
                self.index += len(data) if kind == StreamKind.ROW_INDEX else 0
        footer = self._main.tail.chunks.packed(self._main.footer.changed(streams, self._zone))
        self.footer = len(footer)
        return bytes(out) + footer

    def _streams(self, stream: Stream) -> Iterator[tuple[int, bytes]]:
        data, other = self._main.bytes_of(stream), self._columns.get(stream.column)
        if other is not None and stream.kind == StreamKind.ROW_INDEX:
            yield stream.kind, self._row_index(stream.column, data, self._other.find(stream.kind, other))
            return
        yield stream.kind, data
        if other is not None and stream.kind == StreamKind.DATA:
            yield StreamKind.SECONDARY, self._other.find(StreamKind.SECONDARY, other)

    def _row_index(self, column: int, seconds: bytes, nanos: bytes) -> bytes:
        chunks = self._main.tail.chunks
        count = _POSITIONS if chunks.codec else _POSITIONS - 1
        indexes = [Message.decode(chunks.unpacked(data)).messages(1) for data in (seconds, nanos)]
        entries = Message()
        for one, other in zip(*indexes, strict=True):
            positions = [*one.ints(_ENTRY_POSITIONS), *other.ints(_ENTRY_POSITIONS)[-count:]]
            entry = Message()
            for position in positions:
                entry.add(_ENTRY_POSITIONS, position)
            entry.extend(
                _ENTRY_STATS,
                (self.statistics(column, index_entries) for index_entries in one.messages(_ENTRY_STATS)),
            )
            entries.extend(1, [entry])
        return chunks.packed(entries.encode())

    def statistics(self, column: int, message: Message) -> Message:
        """Return the statistics of a column as the file records them, with bounds of times where the parts
        have those of integers.
        """
        if column not in self._columns:
            return message
        bounds = [(one.find(1), one.find(2)) for one in message.messages(_STATS_INTS)]
        out = message.without(_STATS_INTS)
        if not bounds or bounds[0][0] is None or bounds[0][1] is None:
            return out.extend(_STATS_TIMES, [Message()])
        low, high = (signed(bound) + BASE_SECONDS for bound in bounds[0] if bound is not None)
        return out.extend(_STATS_TIMES, [_times((low - 1) * 1000, high * 1000 + 999)])


def _pairs(main: Tail, other: Tail) -> Iterator[tuple[int, int]]:
    """Yield the ids of the same columns in both."""
    names = [one.all(3) for one in (main.footer.messages(4)[0], other.footer.messages(4)[0])]
    places = dict(zip(names[1], other.children[0], strict=True))
    for name, column in zip(names[0], main.children[0], strict=True):
        if name in places:
            yield from zip(sorted(main.within(column)), sorted(other.within(places[name])), strict=True)


def _times(low: int, high: int) -> Message:
    """Return the bounds of timestamps in milliseconds, of the local time and of UTC."""
    out = Message()
    for number, value in ((1, low), (2, high), (3, low), (4, high)):
        out.add(number, zigzag(value))
    return out


def _total(parts: Sequence[Sequence[Message]]) -> list[Message]:
    """Return the statistics of all stripes: of several stripes only counts and, for timestamps, bounds."""
    if len(parts) <= 1:
        return list(parts[0]) if parts else []
    return [_sum(column) for column in zip(*parts, strict=True)]


def _sum(parts: Sequence[Message]) -> Message:
    out = Message().add(_STATS_COUNT, sum(part.number(_STATS_COUNT) for part in parts))
    filled = [part for part in parts if part.number(_STATS_COUNT)]
    times = [one for part in filled for one in part.messages(_STATS_TIMES)]
    lows = [signed(low) for one in times for number in (1, 3) for low in one.ints(number)]
    highs = [signed(high) for one in times for number in (2, 4) for high in one.ints(number)]
    if times and len(times) == len(filled) and all(one.fields for one in times):
        out.extend(_STATS_TIMES, [_times(min(lows), max(highs))])
    return out.add(_STATS_NULL, int(any(part.number(_STATS_NULL) for part in parts)))


def _change(
    batch: pa.RecordBatch, names: Sequence[str], change: Callable[[str, pa.Array], pa.Array]
) -> pa.RecordBatch:
    fields = [batch.schema.field(name) for name in names]
    arrays = [_leaves(batch.column(name), partial(change, name)) for name in names]
    types = [field.with_type(array.type) for field, array in zip(fields, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(types))


def _leaves(column: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return a column with its timestamps changed, at any depth."""
    if pa.types.is_timestamp(column.type):
        return change(column)
    return map_leaves(column, lambda child: _leaves(child, change)) if has_times(column.type) else column


def _split(times: pa.Array) -> tuple[Any, Any, Any]:
    """Return seconds rounded down, nanoseconds after them, and where there are none."""
    ticks = _TICKS[times.type.unit]
    numbers = times.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    seconds = numbers // ticks
    null = times.is_null().to_numpy(zero_copy_only=False) if times.null_count else None
    return seconds, (numbers - seconds * ticks) * (_SECOND // ticks), null


def _seconds(_: str, times: pa.Array, zone: int) -> pa.Array:
    """Return the seconds in stored form: rounded towards 1970 of the zone, since 2015."""
    seconds, nanos, null = _split(times)
    before = seconds < (0 if times.type.tz else zone)
    return pa.array(seconds + (before & (nanos >= _MILLI)) - BASE_SECONDS, pa.int64(), mask=null)


def _nanos(column: str, times: pa.Array, zone: int) -> pa.Array:
    """Return times of 2015 with the same nanoseconds. Raises UnsupportedError."""
    seconds, nanos, null = _split(times)
    last = (seconds + 1 == (0 if times.type.tz else zone)) & (nanos >= _MILLI)
    if (last & (nanos % _MILLI != 0)).any():
        raise UnsupportedError(
            f"column {column}: orc files cannot store times of the last second before 1970 with fractions "
            "of a millisecond; set file.format (and file.format.per.level, changelog-file.format) to "
            "parquet"
        )
    seconds_nanos = np.where(last, nanos - _SECOND, BASE_SECONDS * _SECOND + nanos)
    return pa.array(seconds_nanos, pa.int64(), mask=null).view(pa.timestamp("ns"))
