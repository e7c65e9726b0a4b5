"""This module compares a row group with the run of pages of another file that it must be made of: bytes, and
all that footer and page indexes say of them. No value is decoded.

What the new footer says of a run stands nowhere in the old one. It is worked out here from the indexes of the
input and from the headers of the pages that were written, and nothing is shared with the code that copies.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from lakecore.data_class import dataclass
from lakecore.format.corruption import corrupt_data_errors
from lakecore.format.parquet.thrift_compact import Struct, decode_leading_struct, decode_struct
from lakecore.verify.digest.row_groups import ColumnFacts, GroupPart, StoredGroups

__all__ = ["RunDifference", "compare_run"]

# field ids of parquet.thrift
_NULL_PAGES, _LOWS, _HIGHS, _ORDER, _NULL_COUNTS = 1, 2, 3, 4, 5
_TYPE, _ENCODINGS, _PATH, _CODEC, _STATISTICS, _ENCODING_COUNTS = 1, 2, 3, 4, 12, 13
_NUMBERS = 5, 6, 7
_STATISTICS_NULLS, _MAX, _MIN = 3, 5, 6
_PAGE_TYPE, _RAW_SIZE, _STORED_SIZE, _DATA, _DICTIONARY, _DATA_V2 = 1, 2, 3, 5, 7, 8
_VALUES, _ENCODING, _DEFINITION, _REPETITION, _ROWS_V2, _ENCODING_V2 = 1, 2, 3, 4, 3, 4
_KINDS = {0: _DATA, 2: _DICTIONARY, 3: _DATA_V2}
"""These are the fields that a page of each type has."""
_CODES = (2, 8)
_RLE = 3
_NOTHING_MORE = b"\0"
_BLOCK = 4 << 20
_LONGEST_HEADER = 1 << 16


class RunDifference(Exception):
    """A row group is not the run of pages that it must be. The message says what differs."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a run: facts of its input and of what was written, and the numbers [first, last) of its
    pages in the input, which have the rows [start, stop) of the row group.
    """

    before: ColumnFacts
    after: ColumnFacts
    pages: tuple[int, int]
    rows: tuple[int, int]

    @property
    def places(self) -> tuple[tuple[int, int, int], ...]:
        """Return the pages of the run in the input."""
        return (self.before.pages or ())[slice(*self.pages)]

    @property
    def dictionary(self) -> int:
        """Return how many bytes lie before the data pages that were written."""
        return self.after.places[0] or 0

    def require(self, condition: object, name: str) -> None:
        """Raise RunDifference unless a condition holds."""
        if not condition:
            raise RunDifference(
                f"column {self.after.path} has another {name} than the pages of it that were copied"
            )


@dataclass(frozen=True, slots=True)
class _Header:
    """This is the header of a page, and how many bytes it has."""

    fields: Struct
    size: int

    @property
    def kind(self) -> int:
        """Return which field has what only pages of its type have."""
        return _KINDS[self.fields[_PAGE_TYPE].value]

    @property
    def _inner(self) -> Struct:
        inner: Struct = self.fields[self.kind].value
        return inner

    @property
    def page_size(self) -> int:
        return self.size + int(self.fields[_STORED_SIZE].value)

    @property
    def raw_size(self) -> int:
        """Return the bytes of the page before compression, and of its header."""
        return self.size + int(self.fields[_RAW_SIZE].value)

    @property
    def values(self) -> int:
        return int(self._inner[_VALUES].value)

    @property
    def rows(self) -> int | None:
        """Return how many rows the page has; None where its header does not tell."""
        return int(self._inner[_ROWS_V2].value) if self.kind == _DATA_V2 else None

    @property
    def encoding(self) -> int:
        return int(self._inner[_ENCODING_V2 if self.kind == _DATA_V2 else _ENCODING].value)

    @property
    def level_encodings(self) -> tuple[int, ...]:
        if self.kind == _DATA:
            return self._inner[_DEFINITION].value, self._inner[_REPETITION].value
        return (_RLE,) if self.kind == _DATA_V2 else ()


def compare_run(source: StoredGroups, part: GroupPart, written: StoredGroups, number: int) -> int:
    """Compare the row group `number` that was written with a run of pages of an input. It returns the
    checksum of the bytes of both. Raises RunDifference, CorruptDataError.
    """
    before, after = source.group(part.group), written.group(number)
    rows = (0, before.rows) if part.rows is None else part.rows
    shapes = [(one.sorting, len(one.columns)) for one in (before, after)]
    if after.rows != rows[1] - rows[0] or shapes[0] != shapes[1]:
        raise RunDifference(
            f"it has {after.rows} rows instead of {rows[1] - rows[0]}, or other columns or another order"
        )
    checksum = 0
    with corrupt_data_errors(written.path):
        for leaf, columns in enumerate(zip(before.columns, after.columns, strict=True)):
            column = _Column(*columns, _pages(columns[0], rows, before.rows), rows)
            shape = written.metadata.schema.column(leaf)
            _compare_indexes(column)
            bare = leaf in written.leaves_without_bounds
            _compare_description(column, None if bare else _order(shape))
            starts = source.chunk_start(part.group, leaf), written.chunk_start(number, leaf)
            blocks = _blocks(column, (source.read, written.read), starts)
            headers, checksum = _compare_bytes(column, blocks, checksum)
            _compare_headers(column, headers, repeated=shape.max_repetition_level > 0)
    return checksum


def _compare_bytes(
    column: _Column, blocks: Iterator[tuple[bytes, bytes]], checksum: int
) -> tuple[list[_Header], int]:
    """Compare the bytes of a column; it returns the headers of its pages, and the checksum so far."""
    headers: list[_Header] = []
    for read, copy in blocks:
        if read != copy:
            raise RunDifference("it has other bytes than the file that pages were copied from")
        checksum = zlib.crc32(copy, checksum)
        headers += _headers(column, copy)
    return headers, checksum


def _pages(column: ColumnFacts, rows: tuple[int, int], group_rows: int) -> tuple[int, int]:
    """Return the numbers [first, last) of the pages with these rows of a row group."""
    starts = [row for _, _, row in column.pages or ()] + [group_rows]
    if rows[0] not in starts or rows[1] not in starts or column.bounds is None:
        raise RunDifference(f"column {column.path} has no pages that begin and end with the rows of the plan")
    return starts.index(rows[0]), starts.index(rows[1])


def _compare_indexes(column: _Column) -> None:
    """Compare the page indexes with those of the input."""
    places = column.places
    moved = column.dictionary - places[0][0]
    expected = tuple((offset + moved, size, row - column.rows[0]) for offset, size, row in places)
    column.require(column.dictionary in (0, column.before.places[0]), "dictionary")
    column.require(column.after.pages == expected, "offset index")
    column.require(column.after.page_sizes == _NOTHING_MORE, "offset index")
    stored, written = decode_struct(column.before.bounds or b""), decode_struct(column.after.bounds or b"\0")
    column.require(set(written) == {_NULL_PAGES, _LOWS, _HIGHS, _ORDER, _NULL_COUNTS}, "column index")
    for field in (_NULL_PAGES, _LOWS, _HIGHS, _NULL_COUNTS):
        part = stored[field].value.values[slice(*column.pages)] if field in stored else None
        column.require(written[field].value.values == part, "column index")
    column.require(written[_ORDER].value == stored[_ORDER].value, "column index")


def _compare_description(column: _Column, order: Callable[[bytes], int] | None) -> None:
    """Compare what the footer says with the input and with the column index."""
    before, after = column.before, column.after
    last = column.places[-1]
    size = column.dictionary + last[0] + last[1] - column.places[0][0]
    column.require(before.kind[:2] == after.kind[:2] and after.kind[3] == size, "type, codec or size")
    column.require(
        after.places[1] is None and after.bloom_filter is None, "place of an index or a bloom filter"
    )
    for field in (_TYPE, _PATH, _CODEC):
        column.require(before.description[field] == after.description[field], "description")
    allowed = {_TYPE, _ENCODINGS, _PATH, _CODEC, *_NUMBERS, _STATISTICS, _ENCODING_COUNTS}
    column.require(set(after.description) == allowed, "description")
    index, stated = decode_struct(after.bounds or b""), decode_struct(after.description[_STATISTICS])
    expected: dict[int, Any] = {_STATISTICS_NULLS: sum(index[_NULL_COUNTS].value.values)}
    flags = index[_NULL_PAGES].value.values
    if order is not None and not all(flags):
        for field, bounds, end in ((_MIN, _LOWS, min), (_MAX, _HIGHS, max)):
            ends = [
                order(bound)
                for bound, flag in zip(index[bounds].value.values, flags, strict=True)
                if not flag
            ]
            expected[field] = end(ends)
    written = {
        field: one.value if field == _STATISTICS_NULLS or order is None else order(one.value)
        for field, one in stated.items()
    }
    column.require(written == expected, "null count or bounds")


def _order(shape: Any) -> Callable[[bytes], int] | None:
    """Return what makes numbers of the bounds of a column; None for one that must not have bounds, because
    those of its pages may not be values.
    """
    logical = json.loads(shape.logical_type.to_json())
    kind, name = shape.physical_type, logical["Type"]
    signed = logical.get("isSigned", True)
    if (
        kind in ("INT32", "INT64")
        and name in ("None", "Int", "Decimal", "Date", "Time", "Timestamp")
        and signed
    ):
        return _little
    if kind == "BOOLEAN" and name == "None":
        return _flag
    return _big if kind == "FIXED_LEN_BYTE_ARRAY" and name == "Decimal" else None


def _little(bound: bytes) -> int:
    return int.from_bytes(bound, "little", signed=True)


def _big(bound: bytes) -> int:
    return int.from_bytes(bound, "big", signed=True)


def _flag(bound: bytes) -> int:
    return bound[0]


_Read = Callable[[int, int], bytes]


def _blocks(
    column: _Column, reads: tuple[_Read, _Read], starts: tuple[int, int]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the bytes of the dictionary and of whole pages in blocks of some MB, of the input and of the
    copy.
    """
    dictionary = column.dictionary
    stretches = [(0, dictionary)] if dictionary else []
    for offset, size, _ in column.places:
        if len(stretches) > bool(dictionary) and stretches[-1][1] + size <= _BLOCK:
            stretches[-1] = stretches[-1][0], stretches[-1][1] + size
        else:
            stretches.append((offset, size))
    moved = dictionary - column.places[0][0]
    for number, (offset, size) in enumerate(stretches):
        copy = 0 if dictionary and number == 0 else offset + moved
        yield reads[0](starts[0] + offset, size), reads[1](starts[1] + copy, size)


def _headers(column: _Column, pages: bytes) -> list[_Header]:
    """Return the headers of the pages in a block."""
    headers = []
    at = 0
    while at < len(pages):
        fields, size = decode_leading_struct(pages[at : at + _LONGEST_HEADER])
        headers.append(_Header(fields, size))
        at += headers[-1].page_size
    column.require(at == len(pages), "end of a page")
    return headers


def _compare_headers(column: _Column, headers: Sequence[_Header], *, repeated: bool) -> None:
    """Compare what the footer and the offset index say with the headers of the pages."""
    data = [one for one in headers if one.kind != _DICTIONARY]
    column.require(len(headers) - len(data) == bool(column.dictionary), "dictionary")
    coded = [one.encoding in _CODES for one in data]
    column.require(any(coded) == bool(column.dictionary), "dictionary")
    column.require(coded == sorted(coded, reverse=True), "order of plain pages and pages with codes")
    column.require(
        [one.page_size for one in data] == [size for _, size, _ in column.places], "size of a page"
    )
    _compare_totals(column, headers)
    starts = [row for _, _, row in column.places] + [column.rows[1]]
    for one, (start, stop) in zip(data, pairwise(starts), strict=True):
        same_rows = one.rows in (None, stop - start)
        column.require(same_rows and (repeated or one.values == stop - start), "number of rows of a page")


def _compare_totals(column: _Column, headers: Sequence[_Header]) -> None:
    """Compare the numbers of values and bytes, and the encodings, with the headers of the pages."""
    after = column.after
    values = sum(one.values for one in headers if one.kind != _DICTIONARY)
    column.require(after.kind[2] == values, "number of values")
    column.require(after.kind[4] == sum(one.raw_size for one in headers), "size before compression")
    encodings = {code for one in headers for code in (one.encoding, *one.level_encodings)}
    column.require(sorted(_list(after.description[_ENCODINGS])) == sorted(encodings), "list of encodings")
    counts = Counter((one.fields[_PAGE_TYPE].value, one.encoding) for one in headers)
    stated = {
        (one[1].value, one[2].value): one[3].value for one in _list(after.description[_ENCODING_COUNTS])
    }
    column.require(stated == counts, "count of pages by encoding")


def _list(data: bytes) -> list[Any]:
    """Return the elements of a thrift list."""
    values: list[Any] = decode_struct(b"\x19" + data + b"\0")[1].value.values
    return values
