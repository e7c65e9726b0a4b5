"""This module keeps the files of a large plan as records of their manifests until they are read: these take
few bytes, also when they are pickled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from backports import zstd

from lakecore.errors import CorruptDataError, reason
from lakecore.format.avro.container import DAMAGE
from lakecore.format.avro.schema import KNOWN_SCHEMAS, parse_avro_schema
from lakecore.format.avro.values import Decode, decoder
from lakecore.format.manifest.blocks import BlockSource
from lakecore.format.manifest.records import file_from_record
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries, in_chunks

__all__ = ["EncodedFiles", "file_slices"]

Ints = npt.NDArray[Any]

_ZSTD_LEVEL = 1
_Part = tuple[bytes, bytes]
"""The compressed schema of some records, and these records, one after the other and compressed."""


class EncodedFiles(Sequence[DataFile]):
    """These files become objects when one of them is asked for, all together: some 30 us a file. Their
    number, size and rows cost nothing.

    It is not to be changed. Files are equal to others, or to a tuple, if their values are.
    """

    __slots__ = ("_count", "_files", "_order", "_parts", "row_count", "size", "where")

    def __init__(
        self,
        parts: tuple[_Part, ...],
        order: tuple[int, ...] | None,
        counts: tuple[int, int, int],
        where: str,
    ) -> None:
        self._parts = parts
        self._order = order
        self._count, self.size, self.row_count = counts
        self.where = where
        self._files: tuple[DataFile, ...] | None = None

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Return the files. Raises CorruptDataError for a record that has other values than the format
        allows.
        """
        if self._files is None:
            files = [file for part in self._parts for file in _decode_files(part, self.where)]
            self._files = tuple(files if self._order is None else [files[place] for place in self._order])
        return self._files

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> DataFile: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[DataFile, ...]: ...
    def __getitem__(self, index: int | slice) -> DataFile | tuple[DataFile, ...]:
        return self.files[index]

    def __iter__(self) -> Iterator[DataFile]:
        return iter(self.files)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EncodedFiles | tuple) and self.files == tuple(other)

    def __hash__(self) -> int:
        return hash(self.files)

    def __repr__(self) -> str:
        return f"EncodedFiles({self._count} files, {self.size} bytes, {self.row_count} rows)"

    def __reduce__(self) -> tuple[Any, ...]:
        counts = self._count, self.size, self.row_count
        return EncodedFiles, (self._parts, self._order, counts, self.where)


def file_slices(entries: ManifestEntries, groups: Iterable[Ints], first: int) -> Iterator[Sequence[DataFile]]:
    """Yield the files of each group of positions. Those that are in blocks of manifests stay records.

    It costs 1 us a file and 20 us a group. For `first` see `in_chunks`.
    """
    for chunk in in_chunks(groups, first):
        part = entries.select(np.concatenate(chunk))
        sources = [(lanes, source) for lanes, source in part.by_source()]
        if not all(isinstance(source, BlockSource) for _, source in sources):
            yield from entries.group_files(chunk)
            continue
        records = _Records(len(part))
        for lanes, source in sources:
            assert isinstance(source, BlockSource)
            records.add(lanes, source.schema_text, source.records(part.position[lanes]))
        end = 0
        for lanes in chunk:
            start, end = end, end + len(lanes)
            yield records.files(start, end, part, sources[0][1])


class _Records:
    """The records of some entries, in their order, and their schemas."""

    def __init__(self, count: int) -> None:
        self._records = [b""] * count
        self._schema = np.zeros(count, np.int32)
        self._schemas: list[bytes] = []

    def add(self, lanes: Ints, schema_text: bytes, records: Sequence[bytes]) -> None:
        if schema_text not in self._schemas:
            self._schemas.append(schema_text)
        self._schema[lanes] = self._schemas.index(schema_text)
        for lane, record in zip(lanes.tolist(), records, strict=True):
            self._records[lane] = record

    def files(self, start: int, end: int, entries: ManifestEntries, source: Any) -> EncodedFiles:
        records, codes = self._records[start:end], self._schema[start:end]
        counts = (
            end - start,
            int(entries.file_size[start:end].sum()),
            int(entries.row_count[start:end].sum()),
        )
        where = source.directory
        if len(self._schemas) == 1:
            return EncodedFiles((_part(self._schemas[0], records),), None, counts, where)
        parts, places = [], []
        for code in np.unique(codes).tolist():
            inside = np.flatnonzero(codes == code).tolist()
            parts.append(_part(self._schemas[code], [records[place] for place in inside]))
            places += inside
        return EncodedFiles(tuple(parts), tuple(np.argsort(places).tolist()), counts, where)


def _part(schema_text: bytes, records: Sequence[bytes]) -> _Part:
    return _packed_schema(schema_text), zstd.compress(b"".join(records), _ZSTD_LEVEL)


@lru_cache(KNOWN_SCHEMAS)
def _packed_schema(schema_text: bytes) -> bytes:
    """Return the compressed text: the same object each time, which a pickle stores once."""
    return zstd.compress(schema_text, _ZSTD_LEVEL)


@lru_cache(KNOWN_SCHEMAS)
def _reader(packed_schema: bytes) -> Decode:
    return decoder(parse_avro_schema(zstd.decompress(packed_schema), "the avro schema"))


def _decode_files(part: _Part, where: str) -> Iterator[DataFile]:
    read, data, at = _reader(part[0]), zstd.decompress(part[1]), 0
    try:
        while at < len(data):
            record, at = read(data, at)
            yield file_from_record(record["_FILE"])
    except (*DAMAGE, TypeError) as err:
        raise CorruptDataError(where, f"contains a record that cannot be decoded: {reason(err)}") from err
