"""This module writes the index of a copy behind its blocks, and reads it back. Pure.

Behind the blocks follow an Arrow stream of one batch, a row a block, the words of the bloom filter, and a
trailer of fixed size with the name of the copy, the two lengths and a checksum of all three. What is read is
compared with the form that the reader expects, so that a copy that was cut, damaged, renamed or made for
other rows is refused as a whole.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.errors import LakeError
from lakecore.lookup.copies.source import CopyForm
from lakecore.lookup.query.block import BlockPlace
from lakecore.lookup.query.key_filter import KeyFilter
from lakecore.lookup.query.lookup_file import FileIndex
from lakecore.lookup.query.packed_keys import KeyColumns

__all__ = ["DamagedIndexError", "decode_index", "encode_index"]

_TRAILER = struct.Struct("<32sQQ8sI")
"""The name, the lengths of the batch and of the filter, the mark of the format, the checksum."""
_MARK = b"LKCOPY1\n"
_HEAD = b"lakecore"
_PLACES = (("offset", pa.int64()), ("length", pa.int64()), ("checksum", pa.int64()), ("rows", pa.int64()))

_DAMAGE = (
    OSError, ValueError, LookupError, TypeError, ArithmeticError, struct.error, pa.ArrowException, LakeError
)  # fmt: skip


class DamagedIndexError(Exception):
    """A copy is not what was written under its name. The error never leaves the package."""


def encode_index(index: FileIndex, digest: str) -> bytes:
    """Return what follows the blocks."""
    columns = [
        [place.offset for place in index.places],
        [place.length for place in index.places],
        [place.checksum for place in index.places],
        np.diff(index.starts).tolist(),
    ]
    arrays = [pa.array(values, kind) for values, (_, kind) in zip(columns, _PLACES, strict=True)]
    names = [name for name, _ in _PLACES]
    arrays += index.firsts.columns
    names += [f"key {number}" for number in range(len(index.firsts.columns))]
    probes = None if index.filter is None else index.filter.probes
    head = {"widths": index.widths, "text_bytes": index.text_bytes, "probes": probes}
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    batch = batch.replace_schema_metadata({_HEAD: json.dumps(head)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as out:
        out.write_batch(batch)
    stream = bytes(sink.getvalue())
    words = b"" if index.filter is None else index.filter.words.astype("<u8").tobytes()
    trailer = _TRAILER.pack(bytes.fromhex(digest), len(stream), len(words), _MARK, 0)[:-4]
    checksum = zlib.crc32(trailer, zlib.crc32(words, zlib.crc32(stream)))
    return b"".join((stream, words, trailer, checksum.to_bytes(4, "little")))


def decode_index(read: Callable[[int, int], bytes], size: int, form: CopyForm) -> FileIndex:
    """Return the index of a copy of `size` bytes; `read` returns the bytes of an offset and a length.

    Raises DamagedIndexError unless it is a whole copy of that form.
    """
    try:
        return _decode(read, size, form)
    except _DAMAGE as err:
        raise DamagedIndexError(f"{type(err).__name__}: {err}") from err


def _decode(read: Callable[[int, int], bytes], size: int, form: CopyForm) -> FileIndex:
    end = size - _TRAILER.size
    _require(end >= 0, "it is too short")
    trailer = read(end, _TRAILER.size)
    digest, stream_size, words_size, mark, checksum = _TRAILER.unpack(trailer)
    _require(mark == _MARK, "it has no trailer")
    _require(digest.hex() == form.digest, "it was made under another name")
    start = end - words_size - stream_size
    _require(start >= 0 and words_size % 8 == 0, "its lengths are wrong")
    body = read(start, stream_size + words_size)
    _require(len(body) == stream_size + words_size, "it was cut")
    _require(zlib.crc32(trailer[:-4], zlib.crc32(body)) == checksum, "its checksum is wrong")
    with pa.ipc.open_stream(body[:stream_size]) as source:
        batch = source.read_next_batch()
    batch.validate(full=True)
    head = json.loads(batch.schema.metadata[_HEAD])
    places = tuple(
        BlockPlace(*row) for row in zip(*(batch.column(n).to_pylist() for n in range(3)), strict=True)
    )
    starts = np.array(list(accumulate(batch.column(3).to_pylist(), initial=0)), np.int64)
    _require(
        int(starts[-1]) == form.rows and bool((np.diff(starts) > 0).all()),
        "its rows are not those of the file",
    )
    ends = [0, *accumulate(place.length for place in places)]
    _require([place.offset for place in places] == ends[:-1] and ends[-1] == start, "its blocks have gaps")
    firsts = KeyColumns(batch.columns[len(_PLACES) :], form.key_type)
    return FileIndex(
        key_names=form.key_names,
        key_type=form.key_type,
        places=places,
        starts=starts,
        firsts=firsts,
        widths=tuple(int(width) for width in head["widths"]),
        text_bytes=int(head["text_bytes"]),
        filter=_filter(body[stream_size:], head["probes"]),
    )


def _filter(words: bytes, probes: Any) -> KeyFilter | None:
    if probes is None:
        return None
    return KeyFilter.of_words(np.frombuffer(words, "<u8").astype(np.uint64), int(probes))


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise DamagedIndexError(problem)
