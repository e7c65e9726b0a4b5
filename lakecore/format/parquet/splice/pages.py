"""The walk through the pages of a file whose row groups, or runs of pages, are to be copied: nothing is
decompressed.

It finds what a footer does not tell: the order of encodings, and pages whose checksum is wrong; and of runs
of pages what the footer of the new file must say of them.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from lakecore.data_class import dataclass
from lakecore.format.parquet.page_locations import page_list
from lakecore.format.parquet.splice import fields as f
from lakecore.format.parquet.splice.fields import required, value
from lakecore.format.parquet.splice.footer import Chunk, Footer, PageRun
from lakecore.format.parquet.splice.reasons import SpliceReason, SpliceRefusal
from lakecore.format.parquet.thrift_spans import Fields, Inside, walk
from lakecore.fs.file_io import RangeSource

__all__ = ["RunFacts", "examine_pages"]

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_CODES = (2, 8)
"""The encodings of pages with positions in a dictionary: PLAIN_DICTIONARY, RLE_DICTIONARY."""
_LEVELS = 3
"""This is the encoding of levels in pages of version 2: RLE."""
_ENCODINGS = (0, 2, 3, 5, 6, 7, 8, 9)
"""These encodings of values need nothing of other pages but the dictionary."""
_BLOCK = 4 << 20
_HEADER = 1 << 16
"""Bytes of a page header at most: it may have a smallest and a largest value."""
_IN_HEADER: Inside = {f.PAGE_DATA: walk, f.PAGE_DICTIONARY: walk, f.PAGE_DATA_V2: walk}


@dataclass(frozen=True, slots=True)
class RunFacts:
    """This is what a footer must say of a run of pages, and their headers tell. `dictionary` are the bytes of
    the dictionary page that it needs; `raw_size` are those of all pages and headers before compression, and
    `counts` are the numbers of pages by type and encoding.
    """

    values: int
    raw_size: int
    dictionary: int
    encodings: frozenset[int]
    counts: Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True)
class _Page:
    offset: int
    size: int
    header: Fields
    raw_size: int


def examine_pages(source: RangeSource, footer: Footer) -> tuple[tuple[RunFacts, ...], ...]:
    """Read all pages of a file, and compare them with its footer and its page indexes. It returns for each
    row group that is made of runs of pages facts of each column. Raises SpliceRefusal.

    It costs one read of what is copied. Memory: a block of some MB, or the largest page.
    """
    facts: list[tuple[RunFacts, ...]] = []
    for group in footer.groups:
        try:
            for chunk in () if group.runs else group.chunks:
                _examine(source, footer, chunk, group.rows)
            columns = zip(group.chunks, group.runs, footer.schema.leaves) if group.runs else ()  # noqa: B905
            facts.append(
                tuple(
                    _run_facts(source, footer, (chunk, run), (group.rows, leaf.repeated))
                    for chunk, run, leaf in columns
                )
            )
        except (ValueError, KeyError, AttributeError, TypeError, IndexError) as err:
            raise SpliceRefusal(SpliceReason.PAGES, f"{footer.path}: {err!r}") from err
    return tuple(facts)


def _examine(source: RangeSource, footer: Footer, chunk: Chunk, rows: int) -> None:
    values = 0
    coded_may_follow = has_dictionary = False
    data_pages: list[tuple[int, int]] = []
    for page in _pages(source, footer, chunk.start, chunk.stop):
        kind = required(page.header, f.PAGE_TYPE)
        if kind == _DICTIONARY:
            if page.offset != chunk.start or value(chunk.meta, f.META_DICTIONARY_PAGE, 0) != chunk.start:
                raise SpliceRefusal(SpliceReason.PAGES, f"{footer.path}: a dictionary at {page.offset}")
            has_dictionary = coded_may_follow = True
            continue
        count, encoding = _data_header(kind, page.header)
        values += count
        coded = encoding in _CODES
        if coded and not has_dictionary:
            raise SpliceRefusal(
                SpliceReason.PAGES, f"{footer.path}: codes at {page.offset} without a dictionary"
            )
        if coded and not coded_may_follow:
            raise SpliceRefusal(SpliceReason.PLAIN_FIRST, f"{footer.path}: page at {page.offset}")
        coded_may_follow = coded_may_follow and coded
        data_pages.append((page.offset, page.size))
    if not data_pages or data_pages[0][0] != chunk.data_page:
        raise SpliceRefusal(SpliceReason.PAGES, f"{footer.path}: the first data page is elsewhere")
    if values != required(chunk.meta, f.META_VALUES):
        raise SpliceRefusal(SpliceReason.PAGES, f"{footer.path}: pages of {values} values")
    _compare_index(source, footer, chunk, data_pages, rows)


def _data_header(kind: int, header: Fields) -> tuple[int, int]:
    """Return the number of values of a data page, and their encoding."""
    if kind == _DATA:
        data = header[f.PAGE_DATA][3]
        return required(data, f.DATA_VALUES), required(data, f.DATA_ENCODING)
    if kind == _DATA_V2:
        data = header[f.PAGE_DATA_V2][3]
        return required(data, f.DATA_VALUES), required(data, f.DATA_V2_ENCODING)
    raise ValueError(f"a page has type {kind} among data pages")


def _run_facts(
    source: RangeSource, footer: Footer, pages: tuple[Chunk, PageRun], shape: tuple[int, bool]
) -> RunFacts:
    """Read a run of pages, and compare them with the indexes. `shape` are the rows of the run, and whether a
    row may have several values.
    """
    chunk, run = pages
    rows, repeated = shape
    places = list(_pages(source, footer, run.start, run.stop))
    if [(page.offset, page.size) for page in places] != [place[:2] for place in run.places]:
        raise ValueError("its offset index names other pages")
    starts = [row for _, _, row in run.places]
    row_counts = [after - before for before, after in pairwise((*starts, rows))]
    counts = Counter[tuple[int, int]]()
    encodings = set[int]()
    values = raw_size = 0
    for page, count in zip(places, row_counts, strict=True):
        kind = required(page.header, f.PAGE_TYPE)
        page_values, encoding = _data_header(kind, page.header)
        if encoding not in _ENCODINGS or _rows(kind, page.header, page_values, repeated) not in (None, count):
            raise ValueError(f"the page at {page.offset} has other rows, or values in encoding {encoding}")
        if encoding in _CODES and any(code not in _CODES for _, code in counts):
            raise SpliceRefusal(SpliceReason.PLAIN_FIRST, f"{footer.path}: page at {page.offset}")
        counts[kind, encoding] += 1
        encodings |= {encoding, *_level_encodings(kind, page.header)}
        values, raw_size = values + page_values, raw_size + page.raw_size
    if encodings.isdisjoint(_CODES):
        return RunFacts(values, raw_size, 0, frozenset(encodings), counts)
    dictionary = _dictionary(source, footer, chunk)
    encoding = required(dictionary.header[f.PAGE_DICTIONARY][3], f.DICTIONARY_ENCODING)
    counts[_DICTIONARY, encoding] += 1
    encodings.add(encoding)
    return RunFacts(values, raw_size + dictionary.raw_size, dictionary.size, frozenset(encodings), counts)


def _rows(kind: int, header: Fields, values: int, repeated: bool) -> int | None:
    """Return how many rows a data page has, by its header; None where it does not tell."""
    if kind == _DATA_V2:
        rows = required(header[f.PAGE_DATA_V2][3], f.DATA_V2_ROWS)
        return rows if repeated or rows == values else -1
    return None if repeated else values


def _level_encodings(kind: int, header: Fields) -> tuple[int, ...]:
    if kind == _DATA_V2:
        return (_LEVELS,)
    data = header[f.PAGE_DATA][3]
    return required(data, f.DATA_DEFINITION_ENCODING), required(data, f.DATA_REPETITION_ENCODING)


def _dictionary(source: RangeSource, footer: Footer, chunk: Chunk) -> _Page:
    """Return the page before the data pages, which must be a dictionary."""
    pages = list(_pages(source, footer, chunk.start, chunk.data_page))
    if len(pages) != 1 or required(pages[0].header, f.PAGE_TYPE) != _DICTIONARY:
        raise ValueError("pages with codes have no dictionary")
    return pages[0]


def _pages(source: RangeSource, footer: Footer, start: int, stop: int) -> Iterator[_Page]:
    """Yield the pages between two places, whose checksums hold. They must fill it without a gap."""
    at, block, begin = start, b"", start
    while at < stop:
        ahead = len(block) - (at - begin)
        if ahead < min(_HEADER, stop - at):
            block, begin = _read(source, at, min(_BLOCK, stop - at)), at
        place = at - begin
        header, end = walk(block, place, _IN_HEADER)
        head = end - place
        size = head + required(header, f.PAGE_SIZE)
        if size < head or at + size > stop:
            raise ValueError(f"a page of {size} bytes at {at} among pages that end at {stop}")
        if place + size > len(block):
            end -= place
            block, begin, place = _read(source, at, min(max(_BLOCK, size), stop - at)), at, 0
        body = memoryview(block)[end : place + size]
        checksum = value(header, f.PAGE_CHECKSUM)
        if checksum is not None and zlib.crc32(body) != checksum & 0xFFFFFFFF:
            raise SpliceRefusal(SpliceReason.CHECKSUM, f"{footer.path}: page at {at}")
        yield _Page(at, size, header, head + required(header, f.PAGE_RAW_SIZE))
        at += size


def _read(source: RangeSource, at: int, size: int) -> bytes:
    data = source.read_at(size, at)
    if len(data) != size:
        raise ValueError(f"the file ends before byte {at + size}")
    return data


def _compare_index(
    source: RangeSource, footer: Footer, chunk: Chunk, pages: list[tuple[int, int]], rows: int
) -> None:
    """Check that an offset index names exactly these pages."""
    at, length = value(chunk.fields, f.CHUNK_OFFSET_INDEX), value(chunk.fields, f.CHUNK_OFFSET_INDEX_LENGTH)
    if not at or not length:
        return
    locations, _ = page_list(_read(source, at, length))
    starts = [row for _, _, row in locations]
    rising = all(before < after for before, after in pairwise(starts))
    places = [(offset, size) for offset, size, _ in locations]
    if places != pages or starts[0] != 0 or starts[-1] >= rows or not rising:
        raise SpliceRefusal(SpliceReason.PAGES, f"{footer.path}: its offset index names other pages")
