"""Tables with postponed buckets (bucket=-2): rows are stored as they came; a compaction assigns their
buckets.

Spec: files are in `bucket-postpone`, in avro where it holds the types, unsorted, with sequence number -1 and
without statistics. Their names identify the writer: rows of one writer are replayed in their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.format.encoders import Encoders
from lakecore.fs.file_io import FileIO
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool
from lakecore.row.bucket import assign_buckets
from lakecore.types.datatypes import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)
from lakecore.write.files.append_writer import AppendWriter
from lakecore.write.files.blob_packs import BlobPacks
from lakecore.write.files.rolling import FileSpec
from lakecore.write.rows.incoming import Rows

__all__ = [
    "PartitionBuckets",
    "PostponeWriter",
    "new_buckets",
    "postponed_files",
    "writer_prefix",
    "writes_real_buckets",
]

_UNORDERED = -1
_AVRO_DIGITS = {TypeRoot.TIME: 3, TypeRoot.TIMESTAMP: 6, TypeRoot.TIMESTAMP_LTZ: 6}
_FIXED = Option("postpone.batch-write-fixed-bucket", parse_bool, True, "Batch writes go to real buckets.")
_DEFAULT = Option("postpone.default-bucket-num", int, 1, "Buckets of a partition that has none yet.")
_TARGET_ROWS: Option[int | None] = Option(
    "postpone.target-row-num-per-bucket",
    int,
    None,
    "Rows of a bucket, where a compaction makes them.",
)


def writes_real_buckets(options: Mapping[str, str]) -> bool:
    """Return whether writes assign buckets at once. Raises InvalidOptionError."""
    return _FIXED.read(options)


def new_buckets(options: Mapping[str, str], rows: int | None = None) -> int:
    """Return the number of buckets of a new partition that gets `rows`, None where that is not known yet.

    Raises InvalidOptionError.
    """
    target = _TARGET_ROWS.read(options)
    if target is not None and target < 1:
        raise InvalidOptionError(f"option {_TARGET_ROWS.key}={target}: must be at least 1")
    if target is not None and rows is not None:
        return max(-(-rows // target), 1)
    number = _DEFAULT.read(options)
    if number < 1:
        raise InvalidOptionError(f"option {_DEFAULT.key}={number}: must be at least 1")
    return number


@dataclass(frozen=True)
class PartitionBuckets:
    """Fixed buckets with a count per partition: the one it has, else the default."""

    schema: TableSchema
    function: str
    count_of: Callable[[bytes], int | None]
    """It returns the number that a partition has; None without one."""

    def total(self, partition: bytes) -> int:
        """Return how many buckets a partition (a serialised row) has."""
        return self.count_of(partition) or new_buckets(self.schema.options)

    def place(
        self, batch: pa.RecordBatch, codes: np.ndarray[Any, Any], partitions: Sequence[bytes]
    ) -> np.ndarray[Any, Any]:
        """Return the bucket of each row; `codes` are the indices of their partitions in `partitions`."""
        key = self.schema.row_type.select(self.schema.bucket_keys)
        buckets = np.zeros(batch.num_rows, np.int32)
        totals = np.array([self.total(partition) for partition in partitions], np.int64)
        for total in np.unique(totals).tolist():
            rows = np.flatnonzero(np.isin(codes, np.flatnonzero(totals == total)))
            part = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
            buckets[rows] = assign_buckets(part, key, total, self.function)
        return buckets


def postponed_files(files: FileSpec, name_prefix: str) -> FileSpec:
    """Return `files` for a writer that postpones buckets, with names of `writer_prefix`."""
    options = dict(files.options)
    if all(_fits_avro(field.type) for field in files.schema.fields):
        options |= {"file.format": "avro", "metadata.stats-mode": "none"}
    return replace(files, name_prefix=name_prefix, options=options)


class PostponeWriter:
    """It writes the rows of one partition in the order they came, each with its kind."""

    def __init__(
        self,
        file_io: FileIO,
        files: FileSpec,
        now_ms: Callable[[], int],
        packs: BlobPacks | None = None,
        encoders: Encoders | None = None,
    ) -> None:
        """Open the writer. `packs` receives the blobs of a table that has some."""
        self._packs = packs
        self._writer = AppendWriter(file_io, files, now_ms, encoders=encoders)

    @property
    def buffered(self) -> int:
        return self._writer.buffered

    @property
    def holds_file(self) -> bool:
        """Return whether `park` would close a file."""
        return self._writer.holds_file or (self._packs is not None and self._packs.holds_file)

    def write(self, rows: Rows) -> None:
        rows = rows if self._packs is None else self._packs.written(rows)
        count = rows.batch.num_rows
        numbers = pa.array(np.full(count, _UNORDERED, np.int64))
        kinds = pa.array(np.zeros(count, np.int8) if rows.kinds is None else rows.kinds)
        names = [SEQUENCE_NAME, KIND_NAME, *rows.batch.schema.names]
        self._writer.write(
            Rows(pa.RecordBatch.from_arrays([numbers, kinds, *rows.batch.columns], names=names))
        )

    def empty_buffer(self) -> None:
        """Empty the buffer into the open file."""
        self._writer.empty_buffer()

    def close_open_files(self) -> None:
        """Close the open file; later rows start another."""
        if self._packs is not None:
            self._packs.close()
        self._writer.close_open_files()

    def begin_close(self) -> None:
        """Begin to encode the last rows where another thread does that; `close` must follow."""
        self._writer.begin_close()

    def close(self) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
        """Return (data files, no changelog files): changes are emitted once rows have buckets."""
        if self._packs is not None:
            self._packs.close()
        return self._writer.close()

    def abort(self) -> None:
        """Remove every file. It may follow `close`."""
        self._writer.abort()
        if self._packs is not None:
            self._packs.abort()


def writer_prefix(prefix: str, user: str, writer: int, unique: str) -> str:
    """Return the prefix of names of postponed files, which contains the writer's number, whatever the user's
    name.
    """
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", user).replace("-s-", "_s_")
    return f"{prefix}-u-{safe}-s-{writer}-w-{unique}"


def _fits_avro(data_type: DataType) -> bool:
    match data_type:
        case AtomicType():
            return data_type.root is not TypeRoot.VARIANT and data_type.precision <= _AVRO_DIGITS.get(
                data_type.root, 38
            )
        case ArrayType() | MultisetType() | VectorType():
            return _fits_avro(data_type.element)
        case MapType():
            return _fits_avro(data_type.key) and _fits_avro(data_type.value)
        case RowType():
            return all(_fits_avro(field.type) for field in data_type.fields)
