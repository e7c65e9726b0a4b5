"""This module describes the footer of a parquet file as a splice needs it: every row group, and the bytes
of each column chunk.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise

from lakecore.format.parquet.footer_bytes import MAGIC, TAIL
from lakecore.format.parquet.splice import fields as f
from lakecore.format.parquet.splice.fields import structs, value
from lakecore.format.parquet.splice.reasons import SpliceReason, SpliceRefusal
from lakecore.format.parquet.thrift_compact import Struct, decode_struct
from lakecore.fs.file_io import RangeSource

__all__ = ["Chunk", "Footer", "RowGroup", "parse_footer", "read_splice_footer"]

_ENCRYPTED_MAGIC = b"PARE"
_FIRST_READ = 1 << 16
_LEAST_FILE = 12


@dataclass(frozen=True, slots=True)
class Chunk:
    """This is a column chunk: the values of one leaf column in a row group, which are the bytes [start,
    stop).
    """

    raw: Struct
    meta: Struct
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class RowGroup:
    raw: Struct
    rows: int
    chunks: tuple[Chunk, ...]

    @property
    def size(self) -> int:
        """Return the bytes of its column chunks."""
        return sum(chunk.stop - chunk.start for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class Footer:
    """This is the footer of the file `path`. `thrift` are its bytes, `leaves` the paths of its leaf
    columns.
    """

    path: str
    thrift: bytes
    meta: Struct
    data_end: int
    leaves: tuple[tuple[bytes, ...], ...]
    groups: tuple[RowGroup, ...]

    @property
    def rows(self) -> int:
        return sum(group.rows for group in self.groups)

    @property
    def writer(self) -> bytes:
        """Return what the footer calls the writer, which readers look at (`created_by`)."""
        return bytes(value(self.meta, f.FILE_WRITER, b""))

    @property
    def notes(self) -> dict[bytes, bytes]:
        """Return the key-value metadata."""
        pairs = value(self.meta, f.FILE_NOTES)
        if pairs is None:
            return {}
        return {note[f.NOTE_KEY].value: value(note, f.NOTE_VALUE, b"") for note in pairs.values}


def read_splice_footer(source: RangeSource, path: str) -> Footer:
    """Read the footer in one or two reads. Raises SpliceRefusal, UnavailableError."""
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
    return parse_footer(path, bytes(thrift), begin)


def parse_footer(path: str, thrift: bytes, begin: int) -> Footer:
    """Return the footer, whose bytes `thrift` begin at `begin` of the file. Pure. Raises SpliceRefusal."""
    try:
        meta = decode_struct(thrift)
        if f.FILE_ENCRYPTION in meta or f.FILE_SIGNING_KEY in meta:
            raise SpliceRefusal(SpliceReason.ENCRYPTED, path)
        _check_known(path, meta, "file")
        leaves = _leaves(structs(meta, f.FILE_SCHEMA))
        groups = tuple(_group(path, raw, leaves, begin) for raw in structs(meta, f.FILE_GROUPS))
        if sum(group.rows for group in groups) != meta[f.FILE_ROWS].value:
            raise ValueError("its row groups have other rows than the file")
        _check_apart(groups)
    except (ValueError, KeyError, AttributeError, TypeError, IndexError) as err:
        raise SpliceRefusal(SpliceReason.DAMAGED, f"{path}: {err!r}") from err
    return Footer(path, thrift, meta, begin, leaves, groups)


def _group(path: str, raw: Struct, leaves: tuple[tuple[bytes, ...], ...], end: int) -> RowGroup:
    _check_known(path, raw, "group")
    columns = structs(raw, f.GROUP_COLUMNS)
    rows = int(raw[f.GROUP_ROWS].value)
    if rows <= 0:
        raise SpliceRefusal(SpliceReason.EMPTY_GROUPS, path)
    if len(columns) != len(leaves):
        raise ValueError(f"{len(columns)} column chunks for {len(leaves)} columns")
    chunks = tuple(_chunk(path, column, leaf, end) for column, leaf in zip(columns, leaves, strict=True))
    return RowGroup(raw, rows, chunks)


def _chunk(path: str, raw: Struct, leaf: tuple[bytes, ...], end: int) -> Chunk:
    _check_known(path, raw, "chunk")
    if f.CHUNK_ENCRYPTION in raw or f.CHUNK_ENCRYPTED_META in raw:
        raise SpliceRefusal(SpliceReason.ENCRYPTED, path)
    if f.CHUNK_PATH in raw:
        raise SpliceRefusal(SpliceReason.OTHER_FILE, path)
    meta: Struct = raw[f.CHUNK_META].value
    _check_known(path, meta, "meta")
    if tuple(structs(meta, f.META_PATH)) != leaf:
        raise ValueError(f"a chunk of column {structs(meta, f.META_PATH)} where {leaf} belongs")
    start = meta[f.META_DATA_PAGE].value
    dictionary = value(meta, f.META_DICTIONARY_PAGE, 0)
    if 0 < dictionary < start:  # an offset of 0 says that there is none
        start = dictionary
    stop = start + meta[f.META_SIZE].value
    if not len(MAGIC) <= start < stop <= end:
        raise ValueError(f"a column chunk at [{start}, {stop}) outside of the data")
    return Chunk(raw, meta, start, stop)


def _check_apart(groups: tuple[RowGroup, ...]) -> None:
    places = sorted((chunk.start, chunk.stop) for group in groups for chunk in group.chunks)
    if any(before[1] > after[0] for before, after in pairwise(places)):
        raise ValueError("column chunks overlap")


def _check_known(path: str, raw: Struct, name: str) -> None:
    if max(raw, default=0) > f.LAST_FIELDS[name]:
        raise SpliceRefusal(SpliceReason.UNKNOWN_FIELDS, f"{path}: field {max(raw)} of a {name}")


def _leaves(elements: list[Struct]) -> tuple[tuple[bytes, ...], ...]:
    """Return the paths of the leaf columns of a schema, whose elements are in the order of a walk."""
    leaves: list[tuple[bytes, ...]] = []

    def walk(at: int, path: tuple[bytes, ...]) -> int:
        element = elements[at]
        at += 1
        children = value(element, f.ELEMENT_CHILDREN, 0)
        below = (*path, bytes(element[f.ELEMENT_NAME].value))
        if not children:
            leaves.append(below)
        for _ in range(children):
            at = walk(at, below)
        return at

    at = 1
    for _ in range(value(elements[0], f.ELEMENT_CHILDREN, 0)):
        at = walk(at, ())
    if at != len(elements):
        raise ValueError(f"{len(elements)} elements of a schema that has {at}")
    return tuple(leaves)
