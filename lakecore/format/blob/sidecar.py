"""This module has the sidecar of a key-value file, which says which packs of blobs its rows refer to
(`<data file>.blobref`).

Layout, big-endian: a magic; version, number of packs and per pack its directory and name (length, modified
UTF-8); a CRC-32 of all that is behind the magic. In order of directory and name, each pack once.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.errors import CorruptDataError
from lakecore.format.corruption import corrupt_data_errors
from lakecore.metadata.row_kind import KIND_NAME, is_retract

__all__ = [
    "PACK_SUFFIX",
    "REFERENCES_SUFFIX",
    "Pack",
    "decode_packs",
    "encode_packs",
    "packs_of",
    "referenced_packs",
]

Pack = tuple[str, str]
"""This is the directory and name of a pack, as references name them."""

PACK_SUFFIX = ".managed.blob"
REFERENCES_SUFFIX = ".blobref"

_MAGIC = 0x50424C52
_VERSION = 1
_HEAD, _TAIL = 13, 16
_COUNT = struct.Struct(">Bi")


def referenced_packs(batch: pa.RecordBatch, columns: Sequence[str]) -> set[Pack]:
    """Return the packs that rows of a key-value file refer to in `columns`. Retract rows have no blobs,
    whatever their columns contain.
    """
    if not columns:
        return set()
    retracts = is_retract(batch.column(KIND_NAME).to_numpy())
    live = batch.filter(pa.array(~retracts)) if retracts.any() else batch
    return set().union(*(packs_of(live.column(name)) for name in columns))


def packs_of(column: pa.Array) -> set[Pack]:
    """Return the packs that references of a column (BLOB, or lists or maps of it) point to; other files are
    left out.
    """
    references = _references(column).drop_null()
    uris = pc.unique(pc.binary_slice(references, _HEAD, -_TAIL)).to_pylist()
    folders = (uri.decode(errors="replace").rpartition("/") for uri in uris)
    return {(_normal(parent), name) for parent, _, name in folders if name.endswith(PACK_SUFFIX)}


def _references(column: pa.Array) -> pa.Array:
    """Return the references of a column, one after another."""
    if pa.types.is_map(column.type):
        low, high = column.offsets[0].as_py(), column.offsets[-1].as_py()
        return column.items.slice(low, high - low)
    return column.flatten() if pa.types.is_list(column.type) else column


def _normal(uri: str) -> str:
    return "file:/" + uri.removeprefix("file:").lstrip("/") if uri.startswith("file:") else uri


def encode_packs(packs: Iterable[Pack]) -> bytes:
    """Return the sidecar of a file whose rows refer to these packs."""
    names = sorted(set(packs))
    parts = [_COUNT.pack(_VERSION, len(names)), *(_text(text) for pack in names for text in pack)]
    body = b"".join(parts)
    return struct.pack(">I", _MAGIC) + body + struct.pack(">I", zlib.crc32(body))


def _text(text: str) -> bytes:
    data = text.encode("utf-16-be", "surrogatepass")
    units = struct.unpack(f">{len(data) // 2}H", data)
    encoded = b"".join(
        b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in units
    )
    return struct.pack(">H", len(encoded)) + encoded


def decode_packs(data: bytes, path: str) -> tuple[Pack, ...]:
    """See `encode_packs`. Raises CorruptDataError naming `path`."""
    if len(data) < 4 + _COUNT.size + 4 or struct.unpack_from(">I", data)[0] != _MAGIC:
        raise CorruptDataError(path, "is not a list of the packs of blobs that a file refers to")
    body = data[4:-4]
    version, count = _COUNT.unpack_from(body)
    if version != _VERSION or struct.unpack(">I", data[-4:])[0] != zlib.crc32(body):
        raise CorruptDataError(path, f"has version {version} of its layout, or a wrong checksum")
    with corrupt_data_errors(path):
        texts = _texts(body)
    if len(texts) != 2 * count:
        raise CorruptDataError(path, f"has {len(texts)} names, but {2 * count} are recorded")
    return tuple(zip(texts[::2], texts[1::2], strict=True))


def _texts(body: bytes) -> list[str]:
    texts: list[str] = []
    at = _COUNT.size
    while at < len(body):
        (length,) = struct.unpack_from(">H", body, at)
        text = body[at + 2 : at + 2 + length]
        if len(text) < length:
            raise ValueError(f"a name claims {length} bytes, but {len(text)} are there")
        raw = text.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
        texts.append(raw.encode("utf-16", "surrogatepass").decode("utf-16"))
        at += 2 + length
    return texts
