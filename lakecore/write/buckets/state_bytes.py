"""This module encodes the state of the buckets of a table for another process on the same machine. Pure.

The bytes have a checksum: a sequence number that is too low would let older rows win. Hash indexes are left
out, because the snapshot names them.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa

from lakecore.errors import CorruptDataError
from lakecore.metadata.snapshot import Snapshot
from lakecore.write.buckets.bucket_state import BucketState
from lakecore.write.buckets.state_with_files import BucketStateWithFiles

__all__ = ["decode_state", "encode_state"]

_MAGIC = b"lakecore buckets 1\n"
_DIGEST_BYTES = 32
_SNAPSHOT = b"snapshot"
_SCHEMA = pa.schema([
    ("partition", pa.binary()),
    ("bucket", pa.int32()),
    ("next_sequence", pa.int64()),
    ("files", pa.int64()),
    ("total", pa.int32()),
])  # fmt: skip


def encode_state(with_files: BucketStateWithFiles) -> bytes:
    """Return the state at its snapshot as bytes, some 40 for each bucket. There must be a snapshot."""
    state = with_files.state
    if state.snapshot is None:
        raise ValueError("the state of an empty table is not stored")
    places = list(with_files.files)
    columns = [
        [partition for partition, _ in places],
        [bucket for _, bucket in places],
        [state.next_sequence(*place) for place in places],
        [with_files.files[place] for place in places],
        [state.totals.get(partition) for partition, _ in places],
    ]
    schema = _SCHEMA.with_metadata({_SNAPSHOT: state.snapshot.to_json()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pa.table(columns, schema=schema))
    body: bytes = sink.getvalue().to_pybytes()
    return _MAGIC + hashlib.sha256(body).digest() + body


def decode_state(data: bytes, path: str) -> BucketStateWithFiles:
    """Return the state, without hash indexes. Raises CorruptDataError naming `path`."""
    start = len(_MAGIC) + _DIGEST_BYTES
    body = data[start:]
    if data[:start] != _MAGIC + hashlib.sha256(body).digest():
        raise CorruptDataError(path, "it is no state of buckets of this release, or was changed")
    table = pa.ipc.open_stream(body).read_all()
    snapshot = Snapshot.from_json(table.schema.metadata[_SNAPSHOT], path)
    partitions, buckets, sequences, files, totals = (column.to_pylist() for column in table.columns)
    places = list(zip(partitions, buckets, strict=True))
    by_partition = {place[0]: total for place, total in zip(places, totals, strict=True) if total is not None}
    state = BucketState(dict(zip(places, sequences, strict=True)), by_partition, snapshot=snapshot)
    return BucketStateWithFiles(state, dict(zip(places, files, strict=True)))
