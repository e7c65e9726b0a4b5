"""This module describes the footer of a parquet file as a splice needs it: every row group, and the bytes
of each column chunk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from lakecore.data_class import dataclass
from lakecore.format.parquet.footer_bounds import has_exact_bounds
from lakecore.format.parquet.footer_bytes import MAGIC, TAIL
from lakecore.format.parquet.page_locations import PagePlace
from lakecore.format.parquet.splice import fields as f
from lakecore.format.parquet.splice.fields import raw, required, value
from lakecore.format.parquet.splice.reasons import SpliceReason, SpliceRefusal
from lakecore.format.parquet.splice.schema import FileSchema, file_schema
from lakecore.format.parquet.thrift_spans import Fields, Inside, binary, struct_list, walk
from lakecore.fs.file_io import RangeSource

__all__ = ["Chunk", "Footer", "PageRun", "RowGroup", "parse_footer", "read_splice_footer"]

_ENCRYPTED_MAGIC = b"PARE"
_FIRST_READ = 1 << 16
_LEAST_FILE = 12

_IN_CHUNK: Inside = {f.CHUNK_META: walk}
_IN_GROUP: Inside = {f.GROUP_COLUMNS: struct_list(_IN_CHUNK)}
_IN_NOTE = struct_list({})
_IN_FILE: Inside = {f.FILE_GROUPS: struct_list(_IN_GROUP), f.FILE_NOTES: _IN_NOTE}


@dataclass(frozen=True, slots=True)
class Chunk:
    """This is a column chunk: the values of one leaf column in a row group, which are the bytes [start,
    stop).
    """

    fields: Fields
    meta: Fields
    start: int
    stop: int

    @property
    def data_page(self) -> int:
        """Return where its first data page begins; a dictionary page lies before it."""
        return required(self.meta, f.META_DATA_PAGE)


@dataclass(frozen=True, slots=True)
class PageRun:
    """These are pages of a column chunk that follow one another, as a chunk of their own: their places, whose
    first rows count from that of the run, and the column index and the statistics of the new chunk (thrift
    structs).
    """

    places: tuple[PagePlace, ...]
    bounds: bytes
    statistics: bytes

    @property
    def start(self) -> int:
        """Return where the first page begins in the file."""
        return self.places[0][0]

    @property
    def stop(self) -> int:
        """Return where the last page ends."""
        return self.places[-1][0] + self.places[-1][1]


@dataclass(frozen=True, slots=True)
class RowGroup:
    """This is a row group, or (with `runs`, one for each chunk) the one that some pages of it become."""

    fields: Fields
    rows: int
    chunks: tuple[Chunk, ...]
    runs: tuple[PageRun, ...] = ()

    @property
    def size(self) -> int:
        """Return the bytes of its column chunks; of runs of pages, those of the data pages."""
        return sum(part.stop - part.start for part in self.runs or self.chunks)


@dataclass(frozen=True, slots=True)
class Footer:
    """This is the footer of the file `path`. `thrift` are its bytes, in which `fields` are found."""

    path: str
    thrift: bytes
    fields: Fields
    data_end: int
    schema: FileSchema
    groups: tuple[RowGroup, ...]

    @property
    def rows(self) -> int:
        return sum(group.rows for group in self.groups)

    @property
    def size(self) -> int:
        """Return the bytes of its column chunks."""
        return sum(group.size for group in self.groups)

    def with_groups(self, groups: Iterable[RowGroup]) -> Footer:
        """Return the footer with these row groups only, which are some of it or made of pages of it."""
        return replace(self, groups=tuple(groups))

    @property
    def writer(self) -> bytes:
        """Return what the footer calls the writer, which readers look at (`created_by`)."""
        span = self.fields.get(f.FILE_WRITER)
        return b"" if span is None else binary(self.thrift, span)

    @property
    def notes(self) -> dict[bytes, bytes]:
        """Return the key-value metadata."""
        return {
            binary(self.thrift, note[f.NOTE_KEY]): (
                binary(self.thrift, note[f.NOTE_VALUE]) if f.NOTE_VALUE in note else b""
            )
            for note in value(self.fields, f.FILE_NOTES, ())
        }

    @property
    def orders(self) -> bytes | None:
        """Return by which order each column's statistics are made, as bytes."""
        return raw(self.thrift, self.fields, f.FILE_ORDERS)

    def has_values(self, group: int, leaf: int) -> bool:
        """Return whether the bounds of a column in a row group are values of it, not cut ones."""
        one = self.groups[group]
        if one.runs:
            return has_exact_bounds(one.runs[leaf].statistics)
        return has_exact_bounds(raw(self.thrift, one.chunks[leaf].meta, f.META_STATISTICS))


def read_splice_footer(source: RangeSource, path: str, *, empty: bool = False) -> Footer:
    """Read the footer in one or two reads. Raises SpliceRefusal, UnavailableError. `empty`: the file has no
    rows, and its row groups are left out.
    """
    size = source.size()
    if size < _LEAST_FILE or source.read_at(len(MAGIC), 0) != MAGIC:
        raise SpliceRefusal(SpliceReason.NOT_PARQUET, path)
    tail = source.read_at(min(size, _FIRST_READ), max(0, size - _FIRST_READ))
    if tail[-4:] == _ENCRYPTED_MAGIC:
        raise SpliceRefusal(SpliceReason.ENCRYPTED, path)
    if tail[-4:] != MAGIC:
        raise SpliceRefusal(SpliceReason.NOT_PARQUET, path)
    length = struct.unpack("<I", tail[-TAIL:-4])[0]
    begin = size - TAIL - length
    if begin < len(MAGIC):
        raise SpliceRefusal(
            SpliceReason.DAMAGED, f"{path}: the footer claims {length} bytes in a file of {size}"
        )
    whole = length + TAIL <= len(tail)
    thrift = tail[-TAIL - length : -TAIL] if whole else source.read_at(length, begin)
    return parse_footer(path, bytes(thrift), begin, empty=empty)


def parse_footer(path: str, thrift: bytes, begin: int, *, empty: bool = False) -> Footer:
    """Return the footer, whose bytes `thrift` begin at `begin` of the file. Pure. Raises SpliceRefusal."""
    try:
        fields, _ = walk(thrift, 0, _IN_FILE)
        if f.FILE_ENCRYPTION in fields or f.FILE_SIGNING_KEY in fields:
            raise SpliceRefusal(SpliceReason.ENCRYPTED, path)
        _check_known(path, fields, "file")
        schema = file_schema(raw(thrift, fields, f.FILE_SCHEMA) or b"")
        stored = () if empty else fields[f.FILE_GROUPS][3]
        groups = tuple(_group(path, thrift, one, schema.paths, begin) for one in stored)
        if sum(group.rows for group in groups) != required(fields, f.FILE_ROWS):
            raise ValueError("its row groups have other rows than the file")
        _check_overlap(groups)
        footer = Footer(path, thrift, fields, begin, schema, groups)
        _ = footer.writer, footer.notes
    except (ValueError, KeyError, AttributeError, TypeError, IndexError, RecursionError) as err:
        raise SpliceRefusal(SpliceReason.DAMAGED, f"{path}: {err!r}") from err
    return footer


def _group(path: str, thrift: bytes, fields: Fields, paths: tuple[bytes, ...], end: int) -> RowGroup:
    _check_known(path, fields, "group")
    columns = fields[f.GROUP_COLUMNS][3]
    rows = required(fields, f.GROUP_ROWS)
    if rows <= 0:
        raise SpliceRefusal(SpliceReason.EMPTY_GROUPS, path)
    if len(columns) != len(paths):
        raise ValueError(f"{len(columns)} column chunks for {len(paths)} columns")
    chunks = tuple(_chunk(path, thrift, one, leaf, end) for one, leaf in zip(columns, paths, strict=True))
    return RowGroup(fields, rows, chunks)


def _chunk(path: str, thrift: bytes, fields: Fields, leaf: bytes, end: int) -> Chunk:
    _check_known(path, fields, "chunk")
    if f.CHUNK_ENCRYPTION in fields or f.CHUNK_ENCRYPTED_META in fields:
        raise SpliceRefusal(SpliceReason.ENCRYPTED, path)
    if f.CHUNK_PATH in fields:
        raise SpliceRefusal(SpliceReason.OTHER_FILE, path)
    meta: Fields = fields[f.CHUNK_META][3]
    _check_known(path, meta, "meta")
    if raw(thrift, meta, f.META_PATH) != leaf:
        raise ValueError("a chunk of another column than the one that belongs there")
    required(meta, f.META_TYPE), required(meta, f.META_CODEC), required(meta, f.META_VALUES)
    start = required(meta, f.META_DATA_PAGE)
    dictionary = value(meta, f.META_DICTIONARY_PAGE, 0)
    if 0 < dictionary < start:  # an offset of 0 says that there is none
        start = dictionary
    stop = start + required(meta, f.META_SIZE)
    if not len(MAGIC) <= start < stop <= end:
        raise ValueError(f"a column chunk at [{start}, {stop}) outside of the data")
    return Chunk(fields, meta, start, stop)


def _check_overlap(groups: tuple[RowGroup, ...]) -> None:
    places = sorted((chunk.start, chunk.stop) for group in groups for chunk in group.chunks)
    if any(before[1] > after[0] for before, after in pairwise(places)):
        raise ValueError("column chunks overlap")


def _check_known(path: str, fields: Fields, name: str) -> None:
    if fields and max(fields) > f.LAST_FIELDS[name]:
        raise SpliceRefusal(SpliceReason.UNKNOWN_FIELDS, f"{path}: field {max(fields)} of a {name}")
