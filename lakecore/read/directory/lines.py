"""This module cuts text files into lines, as Java's readers of format tables do.

Spec: a line feed, a carriage return or both end a line if the delimiter is one of them; any other delimiter
is searched for as it is. The name of a file says how it is compressed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lakecore.errors import CorruptDataError, UnsupportedError
from lakecore.format.corruption import corrupt_data_errors
from lakecore.fs.file_io import FileIO

__all__ = ["read_lines"]

_CHUNK = 1 << 20
_LONGEST = 64 << 20
_BREAKS = ("\n", "\r", "\r\n")
_BOM = b"\xef\xbb\xbf"
_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_DEFLATE = ".deflate"
_BLOCKS = (".snappy", ".lz4")


def read_lines(file_io: FileIO, path: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the lines in groups; memory is that of about a megabyte, or of the longest line.

    Bytes that are not UTF-8 become U+FFFD. Raises CorruptDataError for damaged compression and for a line of
    more than 64 MB, UnsupportedError for a codec that cannot be read.
    """
    breaks = delimiter in _BREAKS
    mark = delimiter.encode()
    rest, first = b"", True
    with corrupt_data_errors(path), file_io.open_input(path) as source:
        for chunk in _chunks(source, path):
            data = rest + chunk
            if first and breaks and len(data) < len(_BOM) and _BOM.startswith(data):
                rest = data
                continue
            data = data.removeprefix(_BOM) if first and breaks else data
            first = False
            *lines, rest = _by_breaks(data) if breaks else _by_mark(data, mark)
            if len(rest) > _LONGEST:
                raise CorruptDataError(
                    path, f"has a line of more than {_LONGEST >> 20} MB; is its delimiter {delimiter!r}?"
                )
            yield [line.decode("utf-8", "replace") for line in lines]
    if breaks and rest.endswith(b"\r"):
        yield [rest[:-1].decode("utf-8", "replace")]
    elif rest:
        yield [rest.decode("utf-8", "replace")]


def _by_breaks(data: bytes) -> list[bytes]:
    """Split at line breaks. A carriage return at the end stays: a line feed may follow it."""
    open_break = data.endswith(b"\r")
    pieces = (data[:-1] if open_break else data).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    if open_break:
        pieces[-1] += b"\r"
    return pieces


def _by_mark(data: bytes, mark: bytes) -> list[bytes]:
    """Split at `mark`. Rule of Java: after a part of it that does not go on, the search begins anew, at this
    byte at the earliest. So `aab` is not found in `aaab`.
    """
    if mark[0] not in mark[1:]:
        return data.split(mark)
    pieces, start, matched = [], 0, 0
    for at, byte in enumerate(data):
        if byte == mark[matched]:
            matched += 1
        else:
            matched = 1 if byte == mark[0] else 0
        if matched == len(mark):
            pieces.append(data[start : at + 1 - len(mark)])
            start, matched = at + 1, 0
    return [*pieces, data[start:]]


def _chunks(source: Any, path: str) -> Iterator[bytes]:
    name = path.rpartition("/")[2]
    if name.endswith(_BLOCKS):
        raise UnsupportedError(
            f"{path}: files of Hadoop's {name.rpartition('.')[2]} codec cannot be read; compress them with "
            "gzip, bzip2 or zstd"
        )
    if name.endswith(_DEFLATE):
        yield from _decompress(source, path)
        return
    codec = next((codec for suffix, codec in _CODECS.items() if name.endswith(suffix)), None)
    stream = source if codec is None else pa.CompressedInputStream(source, codec)
    while chunk := stream.read(_CHUNK):
        yield bytes(chunk)


def _decompress(source: Any, path: str) -> Iterator[bytes]:
    unpack = zlib.decompressobj()
    try:
        while chunk := source.read(_CHUNK):
            while chunk:
                yield unpack.decompress(chunk, _CHUNK)
                chunk = unpack.unconsumed_tail
    except zlib.error as err:
        raise CorruptDataError(path, f"cannot be decompressed: {err}") from err
    if not unpack.eof:
        raise CorruptDataError(path, "ends within its compressed data")
