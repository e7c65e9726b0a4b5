"""This module reads and writes blob files: they have one column, each value in a record of its own, and after
them an index of the records.

Layout, little-endian: per value a magic, the bytes, the length of the record (int64) and a CRC-32 of all
that; then the lengths of all records as zigzag varints of their differences, how many bytes that took (int32)
and a version. Length -1 is a null, -2 a row whose value an older file has; neither has a record.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.format.corruption import corrupt_data_errors
from lakecore.fs.file_io import FileIO, OutputFile

__all__ = [
    "NULL",
    "OLDER",
    "BlobIndex",
    "BlobSource",
    "BlobWriter",
    "Buffer",
    "decode_lengths",
    "encode_lengths",
    "load_blob_index",
]

Ints: TypeAlias = npt.NDArray[np.int64]
Buffer: TypeAlias = bytes | memoryview

NULL, OLDER = -1, -2
"""`BlobIndex.sizes` has these values where there are no bytes."""

_MAGIC = struct.pack("<i", 1481511375)
_TAIL = struct.Struct("<qI")
_FOOTER = struct.Struct("<ib")
_VERSION = 1
_FRAME = len(_MAGIC) + _TAIL.size
_MOST_BYTES = 10
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class BlobIndex:
    """This is the index of a blob file: where the bytes of each row start, and how many there are (or
    NULL, OLDER).
    """

    starts: Ints
    sizes: Ints


def load_blob_index(file_io: FileIO, path: str) -> BlobIndex:
    """Read the end of a blob file; costs two small reads. Raises NotFoundError, CorruptDataError."""
    source = file_io.open_input(path)
    try:
        with corrupt_data_errors(path):
            size = int(source.size())
            source.seek(max(size - _FOOTER.size, 0))
            length, version = _FOOTER.unpack(source.read(_FOOTER.size))
            if version != _VERSION or not 0 <= length <= size - _FOOTER.size:
                raise CorruptDataError(
                    path, f"is not a blob file: its version is {version} and its index takes {length} bytes"
                )
            body = size - _FOOTER.size - length
            source.seek(body)
            return _locate(decode_lengths(bytes(source.read(length))), body, path)
    finally:
        source.close()


def decode_lengths(data: bytes) -> Ints:
    """Return the lengths from the zigzag varints of their differences. Raises ValueError for one that does
    not end.
    """
    raw = np.frombuffer(data, np.uint8)
    if not len(raw):
        return np.zeros(0, np.int64)
    ends = np.flatnonzero(raw < 128)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    if not len(ends) or ends[-1] != len(raw) - 1 or (ends - starts).max() >= _MOST_BYTES:
        raise ValueError("the index of a blob file ends within a number")
    places = (np.arange(len(raw)) - np.repeat(starts, ends - starts + 1)).astype(np.uint64)
    bits = (raw & np.uint8(127)).astype(np.uint64) << (places * np.uint64(7))
    values = np.bitwise_or.reduceat(bits, starts)
    half = (values >> np.uint64(1)).view(np.int64)
    lengths: Ints = np.where(values & np.uint64(1), ~half, half).cumsum()
    return lengths


def _locate(lengths: Ints, body: int, path: str) -> BlobIndex:
    stored = lengths >= 0
    wrong = (lengths < OLDER) | (lengths > body) | (stored & (lengths < _FRAME))
    if wrong.any() or lengths[stored].sum() != body:
        raise CorruptDataError(path, "has records whose lengths do not add up to the size of the file")
    ends = np.where(stored, lengths, 0).cumsum()
    starts = np.where(stored, ends - lengths + len(_MAGIC), -1)
    return BlobIndex(starts, np.where(stored, lengths - _FRAME, lengths))


class BlobSource:
    """It reads the bytes of one blob file, by the places of its index."""

    def __init__(self, file_io: FileIO, path: str) -> None:
        self._path = path
        self._source: Any = file_io.open_input(path)

    def read(self, start: int, size: int) -> bytes:
        """Return one value, of which memory has one copy if it is large. Raises CorruptDataError where the
        record is not the one that was written.
        """
        if size > _PIECE:
            with corrupt_data_errors(self._path):
                self._source.seek(start - len(_MAGIC))
                magic, value = self._exactly(len(_MAGIC)), self._exactly(size)
                self._check(zlib.crc32(value, zlib.crc32(magic)), self._exactly(_TAIL.size), start, size)
                return value
        with corrupt_data_errors(self._path):
            self._source.seek(start - len(_MAGIC))
            record = self._exactly(size + _FRAME)
        content = record[: -_TAIL.size]
        self._check(zlib.crc32(content), record[-_TAIL.size :], start, size)
        return content[len(_MAGIC) :]

    def pieces(self, start: int, size: int) -> Iterator[bytes]:
        """Yield one value in pieces of 1 MB, which are valid only when the last one has been read."""
        if size <= _PIECE:
            yield self.read(start, size)
            return
        with corrupt_data_errors(self._path):
            self._source.seek(start - len(_MAGIC))
            checksum = zlib.crc32(self._exactly(len(_MAGIC)))
        for offset in range(0, size, _PIECE):
            with corrupt_data_errors(self._path):
                piece = self._exactly(min(_PIECE, size - offset))
            checksum = zlib.crc32(piece, checksum)
            yield piece
        with corrupt_data_errors(self._path):
            self._check(checksum, self._exactly(_TAIL.size), start, size)

    def _exactly(self, size: int) -> bytes:
        data = bytes(self._source.read(size))
        if len(data) != size:
            raise CorruptDataError(
                self._path, f"ends within a value: only {len(data)} of {size} bytes are there"
            )
        return data

    def _check(self, checksum: int, tail: bytes, start: int, size: int) -> None:
        """Raise CorruptDataError for a wrong checksum. `checksum` is that of the record up to its tail;
        Python writers leave the length out of theirs.
        """
        length, stated = _TAIL.unpack(tail)
        if length != size + _FRAME or stated not in (checksum, zlib.crc32(tail[:8], checksum)):
            raise CorruptDataError(self._path, f"has a damaged value at byte {start}")

    def close(self) -> None:
        self._source.close()


class BlobWriter:
    """It writes one new blob file. After an error call `abort`."""

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self._lengths: list[int] = []
        self.size = 0

    @property
    def rows(self) -> int:
        return len(self._lengths)

    def write(self, values: Sequence[bytes | None]) -> None:
        """Append rows."""
        for value in values:
            if value is None:
                self._lengths.append(NULL)
            else:
                self.write_pieces((value,))

    def write_pieces(self, pieces: Iterable[Buffer]) -> tuple[int, int]:
        """Append a row whose value comes in pieces; the byte where the value starts, and its size."""
        start = self.size + len(_MAGIC)
        self._output.write(_MAGIC)
        checksum, size = zlib.crc32(_MAGIC), 0
        for piece in pieces:
            self._output.write(piece)
            checksum = zlib.crc32(piece, checksum)
            size += memoryview(piece).nbytes
        length = size + _FRAME
        stated = struct.pack("<q", length)
        self._output.write(stated + struct.pack("<I", zlib.crc32(stated, checksum)))
        self._lengths.append(length)
        self.size += length
        return start, size

    def close(self) -> int:
        """Finish the file; its bytes. Raises UnavailableError when storage refuses."""
        index = encode_lengths(self._lengths)
        self._output.write(index)
        self._output.write(_FOOTER.pack(len(index), _VERSION))
        self._output.close()
        return self.size + len(index) + _FOOTER.size

    def abort(self) -> None:
        self._output.abort()


def encode_lengths(lengths: Sequence[int]) -> bytes:
    """See `decode_lengths`."""
    out = bytearray()
    before = 0
    for length in lengths:
        step, before = length - before, length
        value = (step << 1) ^ (step >> 63)
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
    return bytes(out)
