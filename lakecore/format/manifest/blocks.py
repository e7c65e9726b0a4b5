"""Entries that stay in the compressed blocks of their manifests: details are decoded when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, reason
from lakecore.format.avro.container import DAMAGE, AvroBlock, AvroContainer
from lakecore.format.avro.schema import AvroArray, AvroNode, AvroPrimitive
from lakecore.format.avro.values import Decode, decoder
from lakecore.format.avro.vectorized import (
    LANE_PADDING,
    LaneOutput,
    Lanes,
    compile_root,
    lanes_of,
    optional_longs,
)
from lakecore.format.manifest.file_columns import data_files, file_output
from lakecore.format.manifest.records import file_from_record
from lakecore.metadata.manifest.block_spans import BlockSpans
from lakecore.metadata.manifest.byte_words import ByteWords
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import LONGEST_KEY, NO_TIME, RowSource
from lakecore.metadata.manifest.stats_rows import StatsPart, StatsRows

__all__ = ["KEY_FIELDS", "BlockSource"]

I64: TypeAlias = npt.NDArray[np.int64]
Ints: TypeAlias = npt.NDArray[Any]

_MANY_FILES = 64
"""The number of files from which they are decoded faster all together."""
_CACHED_BLOCKS = 64
_BLOCK_BYTES = 256
"""A block takes about so many bytes beside its contents."""
_STATS_BLOCKS = 512
_TIME = "_FILE._CREATION_TIME"
_COLS = "_FILE._VALUE_STATS_COLS"
KEY_FIELDS = ("_FILE._MIN_KEY", "_FILE._MAX_KEY")
"""These are the fields of an entry that have the lowest and highest keys of its file."""
_NAMES = decoder(AvroArray(AvroPrimitive("string")))


@dataclass(frozen=True, slots=True)
class BlockSource:
    """Entry i is the record from `offset[i]` to `end[i]` of block `block[i]`. All blocks have one schema.
    It pickles.
    """

    blocks: tuple[tuple[AvroContainer, AvroBlock], ...]
    block: Ints
    offset: Ints
    end: Ints
    words: ByteWords
    kept_keys: tuple[ByteWords, ByteWords] | None = None
    """These are the lowest and highest keys of the files, where they are short."""
    cache: dict[int, bytes] = field(default_factory=dict, repr=False)

    def part(self, at: Ints) -> BlockSource:
        numbers, block = np.unique(self.block[at], return_inverse=True)
        keys = None
        if self.kept_keys is not None:
            keys = self.kept_keys[0].select(at), self.kept_keys[1].select(at)
        return BlockSource(
            tuple(self.blocks[number] for number in numbers.tolist()),
            block.astype(self.block.dtype),
            self.offset[at],
            self.end[at],
            self.words.select(at),
            keys,
        )

    def without_cache(self) -> BlockSource:
        return replace(self, cache={})

    @property
    def memory(self) -> int:
        columns = int(self.block.nbytes + self.offset.nbytes + self.end.nbytes) + self.words.memory
        keys = 0 if self.kept_keys is None else sum(words.memory for words in self.kept_keys)
        containers = {id(container): container for container, _ in self.blocks}.values()
        stored = sum(len(block.data) for container in containers for block in container.blocks)
        schemas = sum(len(container.schema_text) for container in containers)
        return columns + keys + stored + schemas + _BLOCK_BYTES * len(self.blocks)

    def files(self, at: Ints) -> list[DataFile]:
        """Return the files of the entries at these positions. The cost is 30 us per file, some 7 us for many,
        and 60 us for each of their blocks unless it was used lately.
        """
        if len(at) < _MANY_FILES:
            return self._files(at)
        out: list[Any] = [None] * len(at)
        for places, numbers in self._runs(at):
            for place, file in zip(places.tolist(), self._files_of(at[places], numbers), strict=True):
                out[place] = file
        return out

    def _files_of(self, at: Ints, numbers: Sequence[int]) -> list[DataFile]:
        """Return the files of entries in the blocks `numbers`, decoded together; where that fails, one after
        the other, which explains what is wrong.
        """
        try:
            lanes = self._decode(at, numbers, file_output(len(at)))
            return data_files(lanes, self.blocks[0][0].schema)
        except (ValueError, IndexError):
            return self._files(at)

    def _files(self, at: Ints) -> list[DataFile]:
        out: list[Any] = [None] * len(at)
        read = _record_decoder(self.blocks[0][0].schema) if len(at) else None
        for places, number in self._by_block(at):
            assert read is not None
            data = self._inflated_block(number)
            path = self.blocks[number][0].path
            for place, offset in zip(places.tolist(), self.offset[at[places]].tolist(), strict=True):
                out[place] = _file(read, data, offset, path)
        return out

    @property
    def schema_text(self) -> bytes:
        """Return the schema of the records, as their writer spelled it."""
        return self.blocks[0][0].schema_text if self.blocks else b""

    @property
    def directory(self) -> str:
        """Return the directory of the manifests, for messages."""
        return self.blocks[0][0].path.rpartition("/")[0] if self.blocks else ""

    def records(self, at: Ints) -> list[bytes]:
        """Return the bytes of the records at these positions, in this order. The cost is 1 us per record."""
        out = [b""] * len(at)
        for places, number in self._by_block(at):
            data = self._inflated_block(number)
            starts, ends = self.offset[at[places]].tolist(), self.end[at[places]].tolist()
            for place, start, end in zip(places.tolist(), starts, ends, strict=True):
                out[place] = data[start:end]
        return out

    def block_spans(self, at: Ints, numbers: Ints) -> list[tuple[str, Ints, Ints]]:
        lows, highs = BlockSpans.of_blocks(len(self.blocks), self.block[at], numbers)
        places: dict[int, tuple[AvroContainer, list[int]]] = {}
        for number, (container, _) in enumerate(self.blocks):
            places.setdefault(id(container), (container, []))[1].append(number)
        spans = []
        for container, mine in places.values():
            numbered = {id(block): number for number, block in enumerate(container.blocks)}
            own = [numbered[id(self.blocks[number][1])] for number in mine]
            low, high = BlockSpans.of_blocks(
                len(container.blocks), np.zeros(0, np.int64), np.zeros(0, np.int64)
            )
            low[own], high[own] = lows[mine], highs[mine]
            spans.append((container.path.rpartition("/")[2], low, high))
        return spans

    def names(self, at: Ints) -> ByteWords:
        return self.words.select(at)

    def keys(self, at: Ints) -> tuple[ByteWords, ByteWords] | None:
        """Return the keys of the files. Those that are not kept cost about 1 us per file, as `stats` does."""
        if self.kept_keys is not None:
            return self.kept_keys[0].select(at), self.kept_keys[1].select(at)
        parts: tuple[list[tuple[Ints, ByteWords]], ...] = ([], [])
        for places, numbers in self._runs(at):
            try:
                slices = self._slices(KEY_FIELDS, len(places))
                lanes = self._decode(at[places], numbers, slices)
            except (ValueError, IndexError):
                return None
            if any(int(slices.lengths[name].max(initial=0)) > LONGEST_KEY for name in KEY_FIELDS):
                return None
            for name, part in zip(KEY_FIELDS, parts, strict=True):
                words = ByteWords.from_slices(lanes.data, slices.starts[name], slices.lengths[name])
                part.append((places, words))
        return ByteWords.assemble(len(at), parts[0]), ByteWords.assemble(len(at), parts[1])

    @staticmethod
    def _slices(names: tuple[str, str], count: int) -> LaneOutput:
        return LaneOutput(
            required=frozenset(names),
            starts={name: np.empty(count, np.int64) for name in names},
            lengths={name: np.empty(count, np.int64) for name in names},
        )

    def times(self, at: Ints) -> Ints:
        """Return the creation times of the files. The blocks are inflated again, which then costs about 0.5
        us per file.
        """
        out = np.full(len(at), NO_TIME, np.int64)
        for places, numbers in self._runs(at):
            try:
                output = LaneOutput(longs={_TIME: np.full(len(places), NO_TIME, np.int64)})
                self._decode(at[places], numbers, output)
                out[places] = output.longs[_TIME]
            except (ValueError, IndexError):
                out[places] = RowSource(tuple(self.files(at[places]))).times(np.arange(len(places)))
        return out

    def stats(self, at: Ints, part: StatsPart) -> Iterator[tuple[Ints, StatsRows]]:
        """Yield statistics of the files. The blocks are inflated again, which then costs about 1 us per
        file.
        """
        for places, numbers in self._runs(at):
            try:
                yield places, self._stats(at[places], numbers, part)
            except (ValueError, IndexError):
                yield places, StatsRows.from_files(self.files(at[places]), part)

    def _stats(self, at: Ints, numbers: Sequence[int], part: StatsPart) -> StatsRows:
        prefix = f"_FILE.{part.value}."
        bounds = (prefix + "_MIN_VALUES", prefix + "_MAX_VALUES")
        out = LaneOutput(
            required=frozenset(bounds),
            starts={name: np.empty(len(at), np.int64) for name in bounds},
            lengths={name: np.empty(len(at), np.int64) for name in bounds},
            sparse={prefix + "_NULL_COUNTS": [], _COLS: []},
        )
        lanes = self._decode(at, numbers, out)
        codes, columns = _columns(lanes, len(at)) if part is StatsPart.VALUE else _no_columns(len(at))
        return StatsRows(
            buffer=lanes.data,
            minimum=out.starts[bounds[0]],
            minimum_length=out.lengths[bounds[0]],
            maximum=out.starts[bounds[1]],
            maximum_length=out.lengths[bounds[1]],
            null_counts=optional_longs(lanes, prefix + "_NULL_COUNTS", len(at)),
            column_code=codes,
            columns=columns,
        )

    def _decode(self, at: Ints, numbers: Sequence[int], out: LaneOutput) -> Lanes:
        """Decode the entries in lock-step, with a lane for each entry. `numbers` are those of their blocks,
        in the order of `at`.
        """
        parts = [self._inflate(number) for number in numbers]
        data = np.frombuffer(b"".join([*parts, bytes(LANE_PADDING)]), np.uint8)
        base = np.zeros(max(numbers) + 1, np.int64)
        base[list(numbers)] = np.cumsum([0, *map(len, parts[:-1])])
        lanes = lanes_of(data, out)
        run = compile_root(self.blocks[0][0].schema, out)
        run(lanes, base[self.block[at]] + self.offset[at], np.arange(len(at), dtype=np.int64))
        return lanes

    def _runs(self, at: Ints) -> Iterator[tuple[Ints, list[int]]]:
        """Yield pieces of bounded size: the places in `at` whose entries are in some blocks, and these
        blocks.
        """
        blocks = list(self._by_block(at))
        for low in range(0, len(blocks), _STATS_BLOCKS):
            chunk = blocks[low : low + _STATS_BLOCKS]
            yield np.concatenate([places for places, _ in chunk]), [number for _, number in chunk]

    def _by_block(self, at: Ints) -> Iterator[tuple[Ints, int]]:
        """Yield the places in `at` whose entries are in one block, and the number of the block."""
        numbers = self.block[at]
        order = np.argsort(numbers, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
            if len(places):
                yield places, int(numbers[places[0]])

    def _inflate(self, number: int) -> bytes:
        container, block = self.blocks[number]
        return container.inflate(block)

    def _inflated_block(self, number: int) -> bytes:
        data = self.cache.get(number)
        if data is None:
            data = self._inflate(number)
            if len(self.cache) >= _CACHED_BLOCKS:
                self.cache.clear()
            self.cache[number] = data
        return data


def _no_columns(count: int) -> tuple[Ints, tuple[tuple[str, ...] | None, ...]]:
    return np.zeros(count, np.int32), (None,)


def _columns(lanes: Lanes, count: int) -> tuple[Ints, tuple[tuple[str, ...] | None, ...]]:
    """Return which columns have statistics, as codes into distinct lists; None where all have them (or there
    is no row).
    """
    codes: dict[bytes | None, int] = {None: 0}
    out = np.zeros(count, np.int32)
    data = lanes.data
    for records, starts, lengths in lanes.out.sparse[_COLS]:
        for record, start, length in zip(records.tolist(), starts.tolist(), lengths.tolist(), strict=True):
            out[record] = codes.setdefault(data[start : start + length].tobytes(), len(codes))
    return out, tuple(None if raw is None else tuple(_NAMES(raw, 0)[0]) for raw in codes)


def _file(read: Decode, data: bytes, offset: int, path: str) -> DataFile:
    try:
        record, _ = read(data, offset)
        return file_from_record(record["_FILE"])
    except (*DAMAGE, TypeError) as err:
        raise CorruptDataError(path, f"contains a record that cannot be decoded: {reason(err)}") from err


@lru_cache(maxsize=64)
def _record_decoder(schema: AvroNode) -> Decode:
    return decoder(schema)
