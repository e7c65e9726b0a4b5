"""This module stores the index files of one table (all branches): deletion vectors and the hashes of dynamic
buckets.

They lie in `index/`, or with the data of their bucket (option `index-file-in-data-file-dir`). A file is
written whole under a fresh name and never changes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, LakeError
from lakecore.fs.file_io import FileIO
from lakecore.fs.resolve import plain_path
from lakecore.index.deletion_vectors import (
    VECTOR_FRAME,
    VectorLayout,
    decode_place,
    decode_vectors,
    encode_vectors,
)
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, HASH_INDEX, DeletionFile, IndexFile
from lakecore.metadata.options import INDEX_BESIDE_DATA, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool, parse_size
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_path
from lakecore.store.paths import TablePaths

__all__ = ["IndexStore", "load_deletions"]

logger = logging.getLogger(__name__)

BITMAP64 = Option(
    "deletion-vectors.bitmap64", parse_bool, False, "Whether new deletion vectors have 64 bits."
)
VECTOR_TARGET = Option(
    "deletion-vector.index-file.target-size",
    parse_size,
    2 << 20,
    "Target size of an index file of deletion vectors, in bytes.",
)

Hashes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class IndexStore:
    """These are the index files of a table. `schema` gives partition columns and options. It can be
    pickled if its file_io can.
    """

    file_io: FileIO
    paths: TablePaths
    schema: TableSchema
    clock: Clock = field(default_factory=SystemClock)

    @cached_property
    def layout(self) -> VectorLayout:
        """Return the layout of new vectors. Existing ones record their own."""
        return VectorLayout.V2 if BITMAP64.read(self.schema.options) else VectorLayout.V1

    def path(self, file: IndexFile) -> str:
        """Return the path of an index file."""
        if file.external_path is not None:
            return plain_path(file.external_path)
        return self._place(file.partition, file.bucket, file.file_name)

    def read_vectors(self, file: IndexFile, names: Iterable[str] | None = None) -> dict[str, BitMap]:
        """Return the deletion vectors of these data files that `file` holds; all of them if `names` is
        None.

        Raises NotFoundError; CorruptDataError for damage, and for two vectors of one data file. It costs a
        read of the whole file: some 2 MB in unaware buckets, all vectors of the bucket elsewhere.
        """
        wanted_names = None if names is None else set(names)
        places = {place.data_file: place for place in file.deletions}
        path = self.path(file)
        if len(places) < len(file.deletions):
            raise CorruptDataError(
                path, "contains two deletion vectors of one data file, by the index manifest"
            )
        if wanted_names is not None:
            places = {name: place for name, place in places.items() if name in wanted_names}
        return decode_vectors(self._read(file, path), places, path) if places else {}

    def write_vectors(self, partition: bytes, bucket: int, vectors: Mapping[str, BitMap]) -> IndexFile:
        """Write one new file with the vectors of all these data files; it may hold none."""
        data, ranges = encode_vectors(vectors, self.layout)
        name = self._write(partition, bucket, data)
        return IndexFile(
            partition=partition,
            bucket=bucket,
            index_type=DELETION_VECTORS,
            file_name=name,
            file_size=len(data),
            row_count=len(ranges),
            deletions=ranges,
        )

    def roll_vectors(
        self, partition: bytes, bucket: int, vectors: Mapping[str, BitMap]
    ) -> tuple[IndexFile, ...]:
        """Write new files, each of which ends once it exceeds the target size; none for no vectors. A
        failure leaves none behind.
        """
        target = VECTOR_TARGET.read(self.schema.options)
        written: list[IndexFile] = []
        try:
            written.extend(self.write_vectors(partition, bucket, part) for part in _roll(vectors, target))
        except BaseException:
            self.discard(written)
            raise
        return tuple(written)

    def read_hashes(self, file: IndexFile) -> Hashes:
        """Return the hashes of the keys of a dynamic bucket, in the file's order. Raises CorruptDataError."""
        path = self.path(file)
        data = self._read(file, path)
        if len(data) != 4 * file.row_count:
            raise CorruptDataError(
                path,
                f"has {len(data)} bytes, which do not hold the {file.row_count} hashes that are recorded",
            )
        return np.frombuffer(data, ">i4").astype(np.int32)

    def write_hashes(self, partition: bytes, bucket: int, hashes: npt.NDArray[Any]) -> IndexFile:
        """Write one new file with the hashes of all keys of a bucket."""
        data = hashes.astype(">i4").tobytes()
        return IndexFile(
            partition=partition,
            bucket=bucket,
            index_type=HASH_INDEX,
            file_name=self._write(partition, bucket, data),
            file_size=len(data),
            row_count=len(hashes),
        )

    def discard(self, files: Sequence[IndexFile]) -> None:
        """Delete files that no snapshot refers to. A failure is logged: a remaining file is an orphan."""
        for file in files:
            self._remove(self.path(file))

    def _read(self, file: IndexFile, path: str) -> bytes:
        data = self.file_io.read(path)
        if len(data) != file.file_size:
            raise CorruptDataError(
                path, f"has {len(data)} bytes, but the index manifest records {file.file_size}"
            )
        return data

    def _write(self, partition: bytes, bucket: int, data: bytes) -> str:
        """Write an index file under a fresh name and return the name. After a failure, whatever has the name
        came from the failed write and is removed.
        """
        name = f"index-{self.clock.fresh_id()}-0"
        path = self._place(partition, bucket, name)
        try:
            self.file_io.write_new(path, data)
        except BaseException:
            self._remove(path)
            raise
        return name

    def _remove(self, path: str) -> None:
        try:
            self.file_io.delete(path)
        except LakeError as err:
            logger.warning("index file %s is not needed but could not be removed: %s", path, err)

    def _place(self, partition: bytes, bucket: int, name: str) -> str:
        if not INDEX_BESIDE_DATA.read(self.schema.options):
            return self.paths.index_file(name)
        options = TableOptions.from_schema(self.schema)
        partition_type = self.schema.partition_type
        values = decode_row(partition, partition_type, self.paths.table_path)
        default, legacy = options.partition_default_name, options.partition_legacy_name
        directory = self.paths.bucket_dir(
            partition_path(values, partition_type, default, legacy_name=legacy), bucket, options
        )
        return f"{directory}/{name}"


def _roll(vectors: Mapping[str, BitMap], target: int) -> Iterator[dict[str, BitMap]]:
    """Yield the vectors in parts, in order; a part ends with the vector that takes it past `target` bytes."""
    part: dict[str, BitMap] = {}
    size = 1
    for name, vector in vectors.items():
        part[name] = vector
        size += len(vector.serialize()) + 12
        if size > target:
            yield part
            part, size = {}, 1
    if part:
        yield part


def load_deletions(file_io: FileIO, deletion: DeletionFile) -> BitMap:
    """Return the deleted positions of one data file; only its vector is read.

    Raises NotFoundError, CorruptDataError.
    """
    place = deletion.place
    with file_io.open_ranges(deletion.path) as source:
        data = source.read_at(max(place.length, 0) + VECTOR_FRAME, min(max(place.offset, 0), source.size()))
    return decode_place(data, place, deletion.path)
