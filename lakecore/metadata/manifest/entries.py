"""This module has manifest entries as numpy columns; rows are made only for the entries that are
requested.

A plan over a million files needs a few integers of each and the details of some. Values that every step
needs are columns; the rest stays in an `EntrySource` (rows, or the bytes of the manifests) and is read by
position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.byte_words import ByteWords, hash_bytes
from lakecore.metadata.manifest.data_file import DataFile, EntryKind, ManifestEntry
from lakecore.metadata.manifest.stats_rows import StatsPart, StatsRows

__all__ = [
    "EXTRA_WEIGHTS",
    "FILES_AT_ONCE",
    "LONGEST_KEY",
    "NO_TIME",
    "EntrySource",
    "ManifestEntries",
    "RowSource",
    "in_chunks",
]

Ints = npt.NDArray[Any]
Index = npt.NDArray[Any] | slice | Sequence[int]


_ITER_CHUNK = 4096
_ROW_BYTES = 2048
"""A data file as a value takes about so many bytes."""
_OBJECT_BYTES = 128
"""A small object of Python or an array takes about so many bytes beside its contents."""
FILES_AT_ONCE = 1 << 14
"""The files of so many entries are made together: it takes some 50 MB."""

EXTRA_WEIGHTS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
"""These are the hash weights of the extra files (as an avro array of strings), the embedded index and the
external path.
"""

LONGEST_KEY = 512
"""From so many bytes of a serialised key on, files are compared one by one."""

NO_TIME = int(np.iinfo(np.int64).min)


class EntrySource(Protocol):
    """It is a source of the details of entries. Positions are the source's own."""

    def files(self, at: Ints) -> list[DataFile]:
        """Return the data files at these positions, in this order. It costs some 30 us a file."""

    def names(self, at: Ints) -> ByteWords:
        """Return their file names (UTF-8). This is cheap."""

    def keys(self, at: Ints) -> tuple[ByteWords, ByteWords] | None:
        """Return the serialised lowest and highest keys, or None where some key is very long. It costs up to
        1 us a file.
        """

    def times(self, at: Ints) -> Ints:
        """Return when the files were created: `DataFile.creation_time`, or NO_TIME. It costs some 1 us a
        file.
        """

    def stats(self, at: Ints, part: StatsPart) -> Iterator[tuple[Ints, StatsRows]]:
        """Yield their statistics, in pieces of bounded size, each with its places in `at`."""

    def block_spans(self, at: Ints, numbers: Ints) -> list[tuple[str, Ints, Ints]] | None:
        """Return the name of each manifest, and the least and the greatest of the numbers of entries in each
        of its blocks, or None where it is not known where the entries lie. `numbers` are those of the entries
        `at`.
        """

    def part(self, at: Ints) -> EntrySource:
        """Return a source of these entries, in this order, that holds nothing of the others."""

    def without_cache(self) -> EntrySource:
        """Return the same source, without what it keeps of earlier calls."""

    @property
    def memory(self) -> int:
        """Return how many bytes it holds, about."""


@dataclass(frozen=True, slots=True)
class RowSource:
    """It is a source over data files that are already rows."""

    rows: tuple[DataFile, ...]

    def files(self, at: Ints) -> list[DataFile]:
        return [self.rows[i] for i in at.tolist()]

    def names(self, at: Ints) -> ByteWords:
        return ByteWords.from_bytes([self.rows[i].file_name.encode() for i in at.tolist()])

    def keys(self, at: Ints) -> tuple[ByteWords, ByteWords] | None:
        rows = [self.rows[i] for i in at.tolist()]
        if any(len(row.min_key) > LONGEST_KEY or len(row.max_key) > LONGEST_KEY for row in rows):
            return None
        low, high = ([row.min_key for row in rows], [row.max_key for row in rows])
        return ByteWords.from_bytes(low), ByteWords.from_bytes(high)

    def times(self, at: Ints) -> Ints:
        times = (self.rows[i].creation_time for i in at.tolist())
        return np.array([NO_TIME if time is None else time for time in times], np.int64)

    def stats(self, at: Ints, part: StatsPart) -> Iterator[tuple[Ints, StatsRows]]:
        for low in range(0, len(at), _ITER_CHUNK):
            places = np.arange(low, min(low + _ITER_CHUNK, len(at)))
            yield places, StatsRows.from_files(self.files(at[places]), part)

    def block_spans(self, at: Ints, numbers: Ints) -> None:
        return None

    def part(self, at: Ints) -> RowSource:
        return RowSource(tuple(self.files(at)))

    def without_cache(self) -> RowSource:
        return self

    @property
    def memory(self) -> int:
        return _ROW_BYTES * len(self.rows)


def _extra_hashes(files: Sequence[DataFile]) -> Ints:
    """Hash of the rarely used parts of each entry's identity; 0 when there are none.

    It is a weighted sum over the hashes of what is there, so that columns can build it part by part.
    """
    lanes: list[int] = []
    weights: list[int] = []
    parts: list[bytes] = []
    for lane, file in enumerate(files):
        path = None if file.external_path is None else file.external_path.encode()
        extra_files = _array_bytes(file.extra_files) if file.extra_files else None
        for weight, part in zip(EXTRA_WEIGHTS, (extra_files, file.embedded_index, path), strict=True):
            if part is not None:
                lanes.append(lane)
                weights.append(weight)
                parts.append(part)
    out = np.zeros(len(files), np.uint64)
    if parts:
        weighted = hash_bytes(parts).astype(np.uint64) * np.array(weights, np.uint64)
        np.add.at(out, lanes, weighted)
        present = np.unique(lanes)
        out[present] = np.maximum(out[present], 1)
    return out


def _array_bytes(names: Sequence[str]) -> bytes:
    """Return names as avro encodes an array of strings, in one block."""
    out = _count_bytes(len(names))
    for name in map(str.encode, names):
        out += _count_bytes(len(name)) + name
    return out + b"\0"


def _count_bytes(count: int) -> bytes:
    count *= 2
    out = b""
    while count > 127:
        out += bytes([count & 127 | 128])
        count >>= 7
    return out + bytes([count])


def in_chunks(groups: Iterable[Ints], first: int = FILES_AT_ONCE) -> Iterator[list[Ints]]:
    """Yield groups of positions in chunks, for each of which files are made together: the files of a bucket
    lie in as many blocks as there were commits, and each block is decompressed once.

    The first chunk has `first` positions or more, later ones twice as many each time, up to some thousands.
    """
    waiting: list[Ints] = []
    count, most = 0, first
    for lanes in groups:
        waiting.append(lanes)
        count += len(lanes)
        if count >= most:
            yield waiting
            waiting, count, most = [], 0, min(2 * most, FILES_AT_ONCE)
    if waiting:
        yield waiting


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ManifestEntries:
    """These are columns of equal length, in manifest order.

    `name_hash` and `extra_hash` only find candidates: equality is decided by the bytes.
    """

    kind: Ints
    partition: Ints
    """These are the codes into `partitions`."""
    bucket: Ints
    total_buckets: Ints
    level: Ints
    schema_id: Ints
    file_size: Ints
    row_count: Ints
    min_sequence: Ints
    max_sequence: Ints
    delete_row_count: Ints
    """This is the number of retract rows; -1 if unknown."""
    first_row_id: Ints
    """This is the row id of the first row; -1 if unknown."""
    name_hash: Ints
    extra_hash: Ints
    source: Ints
    position: Ints
    partitions: tuple[bytes, ...] = ()
    sources: tuple[EntrySource, ...] = ()
    has_unknown_columns: bool = False
    """It tells whether some manifest has columns that rewriting it would lose."""
    slow_entries: int = 0
    """It says how many entries were decoded one record after the other, because the vectorised decoder
    refused their blocks.
    """
    left_out: int = 0
    """It says how many entries the decoder left out, because they are of partitions that nobody asked for."""

    def __len__(self) -> int:
        return len(self.kind)

    def __iter__(self) -> Iterator[ManifestEntry]:
        for low in range(0, len(self), _ITER_CHUNK):
            yield from self.rows(slice(low, low + _ITER_CHUNK))

    @classmethod
    def empty(cls) -> ManifestEntries:
        return cls.from_rows(())

    @classmethod
    def from_rows(
        cls, rows: Sequence[ManifestEntry], *, has_unknown_columns: bool = False
    ) -> ManifestEntries:
        """Build columns over the given rows."""
        codes: dict[bytes, int] = {}
        partition = [codes.setdefault(row.partition, len(codes)) for row in rows]
        files = tuple(row.file for row in rows)

        def column(values: Iterator[int], dtype: type = np.int64) -> Ints:
            return np.fromiter(values, dtype, len(rows))

        return cls(
            kind=column((row.kind for row in rows), np.int8),
            partition=np.array(partition, np.int32),
            bucket=column((row.bucket for row in rows), np.int32),
            total_buckets=column((row.total_buckets for row in rows), np.int32),
            level=column((f.level for f in files), np.int32),
            schema_id=column(f.schema_id for f in files),
            file_size=column(f.file_size for f in files),
            row_count=column(f.row_count for f in files),
            min_sequence=column(f.min_sequence_number for f in files),
            max_sequence=column(f.max_sequence_number for f in files),
            delete_row_count=column(-1 if f.delete_row_count is None else f.delete_row_count for f in files),
            first_row_id=column(-1 if f.first_row_id is None else f.first_row_id for f in files),
            name_hash=hash_bytes([f.file_name.encode() for f in files]),
            extra_hash=_extra_hashes(files),
            source=np.zeros(len(rows), np.int32),
            position=np.arange(len(rows), dtype=np.int64),
            partitions=tuple(codes),
            sources=(RowSource(files),),
            has_unknown_columns=has_unknown_columns,
        )

    @classmethod
    def concat(cls, parts: Sequence[ManifestEntries]) -> ManifestEntries:
        """Concatenate entries, in order."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.empty()
        codes: dict[bytes, int] = {}
        sources: list[EntrySource] = []
        partition: list[Ints] = []
        source: list[Ints] = []
        for part in parts:
            recode = [codes.setdefault(value, len(codes)) for value in part.partitions]
            partition.append(np.array(recode, np.int32)[part.partition] if recode else part.partition)
            source.append((part.source + len(sources)).astype(np.int32))
            sources.extend(part.sources)
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _PLAIN}
        return cls(
            **columns,
            partition=np.concatenate(partition),
            source=np.concatenate(source),
            partitions=tuple(codes),
            sources=tuple(sources),
            has_unknown_columns=any(part.has_unknown_columns for part in parts),
            slow_entries=sum(part.slow_entries for part in parts),
            left_out=sum(part.left_out for part in parts),
        )

    def frozen(self) -> ManifestEntries:
        """Return the same entries with read-only columns: a change in place raises ValueError."""
        for name in _COLUMNS:
            getattr(self, name).setflags(write=False)
        return self

    def own_copy(self) -> ManifestEntries:
        """Return the same entries, which share no memory with others. It costs a copy."""
        columns = {name: getattr(self, name).copy() for name in _COLUMNS}
        sources: list[EntrySource] = []
        for lanes, source in self.by_source():
            columns["source"][lanes] = len(sources)
            columns["position"][lanes] = np.arange(len(lanes))
            sources.append(source.part(self.position[lanes]))
        codes, columns["partition"] = np.unique(self.partition, return_inverse=True)
        columns["partition"] = columns["partition"].astype(np.int32)
        partitions = tuple(self.partitions[code] for code in codes.tolist())
        return replace(self, **columns, partitions=partitions, sources=tuple(sources), slow_entries=0)

    def without_cache(self) -> ManifestEntries:
        """Return the same entries, without what their sources keep of earlier calls."""
        return replace(self, sources=tuple(source.without_cache() for source in self.sources))

    @property
    def memory(self) -> int:
        """Return how many bytes the entries hold, about, with those of their sources."""
        columns = sum(int(getattr(self, name).nbytes) for name in _COLUMNS)
        values = sum(map(len, self.partitions)) + _OBJECT_BYTES * (len(self.partitions) + len(_COLUMNS))
        return columns + values + sum(source.memory for source in self.sources)

    def select(self, index: Index) -> ManifestEntries:
        """Return the entries of a boolean mask, an array of positions or a slice. Details are shared, not
        copied.
        """
        if not isinstance(index, slice):
            index = np.asarray(index)
            index = index if index.dtype == bool else index.astype(np.int64)
        return replace(self, **{name: getattr(self, name)[index] for name in _COLUMNS})

    def row(self, index: int) -> ManifestEntry:
        """Return one complete entry."""
        return self.rows(np.array([index]))[0]

    def rows(self, index: Index | None = None) -> list[ManifestEntry]:
        """Return entries as values, in order; all of them if `index` is None. It costs some 30 us an
        entry.
        """
        part = self if index is None else self.select(index)
        columns = (part.kind, part.partition, part.bucket, part.total_buckets)
        return [
            ManifestEntry(
                kind=EntryKind(kind),
                partition=self.partitions[code],
                bucket=bucket,
                total_buckets=total,
                file=file,
            )
            for kind, code, bucket, total, file in zip(
                *(column.tolist() for column in columns), part.files(), strict=True
            )
        ]

    def files(self, index: Index | None = None) -> list[DataFile]:
        """Return the data files, in order."""
        part = self if index is None else self.select(index)
        if len(part.sources) == 1:
            return part.sources[0].files(part.position)
        out: list[Any] = [None] * len(part)
        for lanes, source in part.by_source():
            files = source.files(part.position[lanes])
            for lane, file in zip(lanes.tolist(), files, strict=True):
                out[lane] = file
        return out

    def files_of(self, groups: Iterable[Ints], first: int = FILES_AT_ONCE) -> Iterator[list[DataFile]]:
        """Yield the data files of each group of positions. For `first` see `in_chunks`."""
        for chunk in in_chunks(groups, first):
            yield from self.group_files(chunk)

    def all_files(self) -> Iterator[DataFile]:
        """Yield the data files, in order, with some thousands of them in memory."""
        for low in range(0, len(self), FILES_AT_ONCE):
            yield from self.files(slice(low, low + FILES_AT_ONCE))

    def group_files(self, groups: Sequence[Ints]) -> Iterator[list[DataFile]]:
        """Yield the data files of each group of positions, all of which are made at once."""
        files = self.files(np.concatenate(groups))
        end = 0
        for lanes in groups:
            start, end = end, end + len(lanes)
            yield files[start:end]

    def names(self) -> list[bytes]:
        """Return the file names (UTF-8), in order."""
        return self.name_words().to_list()

    def name_words(self) -> ByteWords:
        """Return the file names in a form that compares many at once."""
        parts = [(lanes, source.names(self.position[lanes])) for lanes, source in self.by_source()]
        return ByteWords.assemble(len(self), parts)

    def keys(self) -> tuple[ByteWords, ByteWords] | None:
        """Return the serialised lowest and highest keys of the files, or None where some key is very long."""
        lows, highs = [], []
        for lanes, source in self.by_source():
            keys = source.keys(self.position[lanes])
            if keys is None:
                return None
            lows.append((lanes, keys[0]))
            highs.append((lanes, keys[1]))
        return ByteWords.assemble(len(self), lows), ByteWords.assemble(len(self), highs)

    def times(self) -> Ints:
        """Return when the files were created, by their writers' wall clocks (milliseconds), or NO_TIME."""
        out = np.full(len(self), NO_TIME, np.int64)
        for lanes, source in self.by_source():
            out[lanes] = source.times(self.position[lanes])
        return out

    def newest(self, times: Ints | None = None) -> Ints:
        """Return, for each of `partitions`, when the newest of its files was created; 0 if none is known.
        `times` is what `times` returns, if the caller has it.
        """
        out = np.zeros(len(self.partitions), np.int64)
        np.maximum.at(out, self.partition, self.times() if times is None else times)
        return out

    def partition_of(self, index: int) -> bytes:
        """Return the serialised partition of one entry."""
        return self.partitions[int(self.partition[index])]

    def stats(self, part: StatsPart) -> Iterator[tuple[Ints, StatsRows]]:
        """Yield the statistics of all entries, in pieces, each with the places of its entries."""
        for lanes, source in self.by_source():
            for places, stats in source.stats(self.position[lanes], part):
                yield lanes[places], stats

    def block_spans(self, numbers: Ints) -> list[tuple[str, Ints, Ints]]:
        """Return the name of each manifest, and the least and the greatest of the `numbers` of entries in
        each of its blocks: a manifest may have several lines. There are none if it is not known of some entry
        where it lies.

        The entries must be all that were read of their manifests.
        """
        spans: list[tuple[str, Ints, Ints]] = []
        for lanes, source in self.by_source():
            part = source.block_spans(self.position[lanes], numbers[lanes])
            if part is None:
                return []
            spans += part
        return spans

    def by_source(self) -> Iterator[tuple[Ints, EntrySource]]:
        """Yield the places of the entries that share a source, and the source."""
        for code in np.unique(self.source).tolist():
            yield np.flatnonzero(self.source == code), self.sources[code]


_COLUMNS = tuple(
    f.name
    for f in fields(ManifestEntries)
    if f.name not in ("partitions", "sources", "has_unknown_columns", "slow_entries", "left_out")
)
_PLAIN = tuple(name for name in _COLUMNS if name not in ("partition", "source"))
