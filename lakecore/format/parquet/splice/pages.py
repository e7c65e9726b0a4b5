"""The walk through the pages of a file whose row groups are to be copied: nothing is decompressed.

It finds what a footer does not tell: the order of encodings, and pages whose checksum is wrong.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import pairwise

from lakecore.data_class import dataclass
from lakecore.format.parquet.page_locations import page_list
from lakecore.format.parquet.splice import fields as f
from lakecore.format.parquet.splice.fields import required, value
from lakecore.format.parquet.splice.footer import Chunk, Footer
from lakecore.format.parquet.splice.reasons import SpliceReason, SpliceRefusal
from lakecore.format.parquet.thrift_spans import Fields, Inside, walk
from lakecore.fs.file_io import RangeSource

__all__ = ["examine_pages"]

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_CODES = (2, 8)
"""The encodings of pages with positions in a dictionary: PLAIN_DICTIONARY, RLE_DICTIONARY."""
_BLOCK = 4 << 20
_HEADER = 1 << 16
"""Bytes of a page header at most: it may have a smallest and a largest value."""
_IN_HEADER: Inside = {f.PAGE_DATA: walk, f.PAGE_DATA_V2: walk}


@dataclass(frozen=True, slots=True)
class _Page:
    offset: int
    size: int
    header: Fields


def examine_pages(source: RangeSource, footer: Footer) -> None:
    """Read all pages of a file, and compare them with its footer and its page indexes. Raises SpliceRefusal.

    It costs one read of the file. Memory: a block of some MB, or the largest page.
    """
    for group in footer.groups:
        for chunk in group.chunks:
            try:
                _examine(source, footer, chunk, group.rows)
            except (ValueError, KeyError, AttributeError, TypeError, IndexError) as err:
                raise SpliceRefusal(SpliceReason.PAGES, f"{footer.path}: {err!r}") from err


def _examine(source: RangeSource, footer: Footer, chunk: Chunk, rows: int) -> None:
    values = 0
    coded_may_follow = has_dictionary = False
    data_pages: list[tuple[int, int]] = []
    for page in _pages(source, footer, chunk):
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


def _pages(source: RangeSource, footer: Footer, chunk: Chunk) -> Iterator[_Page]:
    """Yield the pages of a chunk, whose checksums hold. They must fill it without a gap."""
    at, block, begin = chunk.start, b"", chunk.start
    while at < chunk.stop:
        ahead = len(block) - (at - begin)
        if ahead < min(_HEADER, chunk.stop - at):
            block, begin = _read(source, at, min(_BLOCK, chunk.stop - at)), at
        place = at - begin
        header, end = walk(block, place, _IN_HEADER)
        size = end - place + required(header, f.PAGE_SIZE)
        if size < end - place or at + size > chunk.stop:
            raise ValueError(f"a page of {size} bytes at {at} in a chunk that ends at {chunk.stop}")
        if place + size > len(block):
            end -= place
            block, begin, place = _read(source, at, min(max(_BLOCK, size), chunk.stop - at)), at, 0
        body = memoryview(block)[end : place + size]
        checksum = value(header, f.PAGE_CHECKSUM)
        if checksum is not None and zlib.crc32(body) != checksum & 0xFFFFFFFF:
            raise SpliceRefusal(SpliceReason.CHECKSUM, f"{footer.path}: page at {at}")
        yield _Page(at, size, header)
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
