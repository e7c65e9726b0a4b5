"""Parquet files with a changed footer or other pages than their writer made: what rules must refuse."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakecore.format.parquet.splice.footer import read_splice_footer
from lakecore.format.parquet.thrift_compact import (
    Field,
    Struct,
    ThriftList,
    WireType,
    decode_struct,
    encode_struct,
)
from lakecore.fs.local import LocalFileIO

__all__ = ["edit_footer", "flip_byte", "footer_of", "plain_before_dictionary"]

MAGIC = b"PAR1"


def footer_of(path: Path) -> Struct:
    data = path.read_bytes()
    length = struct.unpack("<I", data[-8:-4])[0]
    return decode_struct(data[-8 - length : -8])


def edit_footer(path: Path, change: Callable[[Struct], None]) -> None:
    """Let `change` edit the decoded footer, and write the file anew with it."""
    data = path.read_bytes()
    length = struct.unpack("<I", data[-8:-4])[0]
    meta = footer_of(path)
    change(meta)
    _write(path, data[: -8 - length], meta)


def flip_byte(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def plain_before_dictionary(path: Path, rows: int) -> pa.Table:
    """Write a file of one column of `2 * rows` numbers: pages of plain values, then pages with a dictionary, in one
    chunk. That is legal parquet, and pyarrow reads it; Java reads other values. Returns its rows.
    """
    first = pa.table({"n": pa.array(range(1000, 1000 + rows), pa.int64())})
    second = pa.table({"n": pa.array([number % 7 for number in range(rows)], pa.int64())})
    options = {"compression": "zstd", "write_page_checksum": True}
    plain, coded = path.with_suffix(".plain"), path.with_suffix(".coded")
    pq.write_table(first, plain, use_dictionary=False, **options)
    pq.write_table(second, coded, use_dictionary=True, **options)
    pages = [_chunk_bytes(plain), _chunk_bytes(coded)]
    meta = footer_of(coded)
    group = meta[4].value.values[0]
    chunk = group[1].value.values[0][3].value
    dictionary_size = chunk[9].value - chunk[11].value
    body = pages[1][:dictionary_size] + pages[0] + pages[1][dictionary_size:]
    chunk[5] = Field(WireType.I64, 2 * rows)
    chunk[7] = Field(WireType.I64, len(body))
    chunk[6] = Field(WireType.I64, 16 * rows)
    chunk[11], chunk[9] = Field(WireType.I64, 4), Field(WireType.I64, 4 + dictionary_size)
    del chunk[12]
    group[1] = Field(
        WireType.LIST,
        ThriftList(WireType.STRUCT, [{2: Field(WireType.I64, 0), 3: Field(WireType.STRUCT, chunk)}]),
    )
    group[3] = meta[3] = Field(WireType.I64, 2 * rows)
    _write(path, MAGIC + body, meta)
    return pa.concat_tables([first, second])


def _chunk_bytes(path: Path) -> bytes:
    with LocalFileIO().open_ranges(str(path)) as source:
        chunk = read_splice_footer(source, str(path)).groups[0].chunks[0]
        return source.read_at(chunk.stop - chunk.start, chunk.start)


def _write(path: Path, data: bytes, meta: Struct) -> None:
    footer = encode_struct(meta)
    path.write_bytes(data + footer + struct.pack("<I", len(footer)) + MAGIC)
