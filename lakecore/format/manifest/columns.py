"""This module decodes many avro manifests at once, straight into columns: the fast way to a plan over very
many files.

Blocks are inflated in a thread while the ones before are decoded in lock-step (`vectorized`). Of each entry
the columns of `ManifestEntries` and its file name are kept, and where its record lies in its block.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.errors import CorruptDataError
from lakecore.format.avro.container import AvroBlock, AvroContainer
from lakecore.format.avro.values import skipper
from lakecore.format.avro.vectorized import (
    LANE_PADDING,
    LaneOutput,
    Lanes,
    compile_root,
    decode_blocks,
    lanes_of,
)
from lakecore.format.manifest.blocks import KEY_FIELDS, BlockSource
from lakecore.format.manifest.records import entry_from_record
from lakecore.format.manifest.schemas import MANIFEST_VERSION, has_unknown_fields
from lakecore.metadata.file_names import checked_words
from lakecore.metadata.manifest.byte_words import ByteWords, hash_slices
from lakecore.metadata.manifest.entries import EXTRA_WEIGHTS, ManifestEntries

__all__ = ["decode_columns"]

logger = logging.getLogger(__name__)

I64: TypeAlias = npt.NDArray[np.int64]
Ints: TypeAlias = npt.NDArray[Any]

_FIRST_GROUP_SIZE = 16 << 20
_GROUP_SIZE = 128 << 20
"""Inflated bytes decoded together: some 2,000 lanes, and small enough to hold twice."""
_MAX_BYTES = 512
_INT32 = (-(1 << 31), (1 << 31) - 1)

_LONGS = {
    "_VERSION": None, "_KIND": None, "_BUCKET": None, "_TOTAL_BUCKETS": None, "_FILE._FILE_SIZE": None,
    "_FILE._ROW_COUNT": None, "_FILE._MIN_SEQUENCE_NUMBER": None, "_FILE._MAX_SEQUENCE_NUMBER": None,
    "_FILE._SCHEMA_ID": None, "_FILE._LEVEL": None, "_FILE._DELETE_ROW_COUNT": -1, "_FILE._FIRST_ROW_ID": -1,
}  # fmt: skip
"""Fields that become columns, and what stands for null."""
_BYTES = ("_PARTITION", "_FILE._FILE_NAME", *KEY_FIELDS)
_KEPT_KEY = 64
"""The bytes up to which keys are kept; longer ones are decoded again when they are asked for."""
_EXTRAS = ("_FILE._EXTRA_FILES", "_FILE._EMBEDDED_FILE_INDEX", "_FILE._EXTERNAL_PATH")
_REQUIRED = frozenset((*(name for name, default in _LONGS.items() if default is None), *_BYTES))


def decode_columns(containers: Iterable[AvroContainer], known: frozenset[str]) -> ManifestEntries:
    """Return the entries of manifests, in order. `known` are the columns that a rewrite keeps.

    Iterates over `containers` in another thread, to read ahead. Raises CorruptDataError naming the file,
    UnsupportedError for another version or codec, and whatever the iteration raises.
    """
    groups = _inflated(containers)
    parts: list[ManifestEntries] = []
    with ThreadPoolExecutor(1, thread_name_prefix="inflate") as pool:
        ahead = pool.submit(next, groups, None)
        while (group := ahead.result()) is not None:
            ahead = pool.submit(next, groups, None)
            entries = _decode_group(group)
            unknown = has_unknown_fields(group.blocks[0][0].schema_text, known)
            parts.append(replace(entries, has_unknown_columns=unknown))
    return ManifestEntries.concat(parts)


_Block: TypeAlias = tuple[AvroContainer, AvroBlock]


@dataclass(frozen=True, slots=True)
class _Group:
    """Blocks of one schema, inflated: block i is `data[ends[i - 1]:ends[i]]`; padding follows the last."""

    blocks: tuple[_Block, ...]
    data: npt.NDArray[np.uint8]
    ends: I64


def _inflated(containers: Iterable[AvroContainer]) -> Iterator[_Group]:
    """Yield groups in order; the first ones are small, so that decoding starts early."""
    blocks: list[_Block] = []
    parts: list[bytes] = []
    size, target = 0, _FIRST_GROUP_SIZE
    for container in containers:
        if blocks and blocks[0][0].schema_text != container.schema_text:
            yield _group(blocks, parts)
            blocks, parts, size = [], [], 0
        for block in container.blocks:
            data = container.inflate(block)
            if block.count > len(data):
                raise CorruptDataError(
                    container.path, f"has a block of {len(data)} bytes that claims {block.count} records"
                )
            blocks.append((container, block))
            parts.append(data)
            size += len(data)
            if size >= target:
                yield _group(blocks, parts)
                blocks, parts, size, target = [], [], 0, min(2 * target, _GROUP_SIZE)
    if blocks:
        yield _group(blocks, parts)


def _group(blocks: list[_Block], parts: list[bytes]) -> _Group:
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    data = np.empty(int(ends[-1]) + LANE_PADDING, np.uint8)
    data[-LANE_PADDING:] = 0
    for end, part in zip(ends.tolist(), parts, strict=True):
        data[end - len(part) : end] = np.frombuffer(part, np.uint8)
    return _Group(tuple(blocks), data, ends)


def _decode_group(group: _Group) -> ManifestEntries:
    """Decode a group in lock-step; where that fails, for damage or a rare schema, decode one manifest after
    the other, which explains what is wrong.
    """
    try:
        return _lock_step(group)
    except (ValueError, IndexError) as err:
        logger.info("%s and other manifests are decoded record by record: %s", group.blocks[0][0].path, err)
        entries = _one_by_one(group)
        return replace(entries, slow_entries=len(entries))


def _one_by_one(group: _Group) -> ManifestEntries:
    rows = []
    start = 0
    for (container, block), end in zip(group.blocks, group.ends.tolist(), strict=True):
        records = container.records(block.count, group.data[start:end].tobytes())
        rows += [entry_from_record(record, container.path) for record in records]
        start = end
    return ManifestEntries.from_rows(rows)


def _lock_step(group: _Group) -> ManifestEntries:
    """Decode a group in lock-step. Raises ValueError or IndexError for damage, and for schemas that have no
    lock-step form.
    """
    counts = np.array([block.count for _, block in group.blocks], np.int64)
    records = int(counts.sum())
    out = LaneOutput(
        required=_REQUIRED,
        longs={name: _column(records, default) for name, default in _LONGS.items()},
        starts={name: np.empty(records, np.int64) for name in _BYTES},
        lengths={name: np.empty(records, np.int64) for name in _BYTES},
        sparse={name: [] for name in _EXTRAS},
    )
    schema = group.blocks[0][0].schema
    run = compile_root(schema, out)
    lanes = lanes_of(group.data, out)
    at = decode_blocks(run, skipper(schema), lanes, group.ends, counts)
    starts = np.concatenate([[0], group.ends[:-1]])
    block = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    source = BlockSource(
        blocks=group.blocks,
        block=block,
        offset=(at - starts[block]).astype(np.int32),
        words=checked_words(_words(lanes, "_FILE._FILE_NAME"), "_FILE_NAME"),
        kept_keys=_kept_keys(lanes),
    )
    return _entries(lanes, source)


def _column(count: int, default: int | None) -> I64:
    """Return space for values, which is filled only where a record may lack one."""
    return np.empty(count, np.int64) if default is None else np.full(count, default, np.int64)


def _kept_keys(lanes: Lanes) -> tuple[ByteWords, ByteWords] | None:
    """Return the lowest and highest keys of files, unless they are long."""
    if any(int(lanes.out.lengths[name].max(initial=0)) > _KEPT_KEY for name in KEY_FIELDS):
        return None
    return _words(lanes, KEY_FIELDS[0]), _words(lanes, KEY_FIELDS[1])


def _words(lanes: Lanes, name: str) -> ByteWords:
    start, length = lanes.out.starts[name], lanes.out.lengths[name]
    if int(length.max(initial=0)) > _MAX_BYTES:
        raise ValueError(f"a {name} takes {length.max()} bytes, which are too many")
    return ByteWords.from_slices(lanes.data, start, length)


def _entries(lanes: Lanes, source: BlockSource) -> ManifestEntries:
    longs = lanes.out.longs
    if (longs["_VERSION"] != MANIFEST_VERSION).any():
        raise ValueError("a record has another version")
    partitions, codes = _coded(_words(lanes, "_PARTITION"))
    file = {name.removeprefix("_FILE."): column for name, column in longs.items()}
    count = len(codes)
    return ManifestEntries(
        kind=_narrow(longs["_KIND"], 0, 1, np.int8),
        partition=codes,
        bucket=_narrow(longs["_BUCKET"], *_INT32, np.int32),
        total_buckets=_narrow(longs["_TOTAL_BUCKETS"], *_INT32, np.int32),
        level=_narrow(file["_LEVEL"], *_INT32, np.int32),
        schema_id=file["_SCHEMA_ID"],
        file_size=file["_FILE_SIZE"],
        row_count=file["_ROW_COUNT"],
        min_sequence=file["_MIN_SEQUENCE_NUMBER"],
        max_sequence=file["_MAX_SEQUENCE_NUMBER"],
        delete_row_count=file["_DELETE_ROW_COUNT"],
        first_row_id=file["_FIRST_ROW_ID"],
        name_hash=source.words.hashes(),
        extra_hash=_extra_hashes(lanes, count),
        source=np.zeros(count, np.int32),
        position=np.arange(count, dtype=np.int64),
        partitions=partitions,
        sources=(source,),
    )


def _narrow(column: I64, low: int, high: int, dtype: type) -> Ints:
    if len(column) and not low <= int(column.min()) <= int(column.max()) <= high:
        raise ValueError(f"a value lies outside of [{low}, {high}]")
    return column.astype(dtype)


def _coded(words: ByteWords) -> tuple[tuple[bytes, ...], Ints]:
    """Return the distinct strings, and the number of the string of each lane."""
    _, first, codes = np.unique(words.hashes(), return_index=True, return_inverse=True)
    if words.same(np.arange(len(words)), first[codes]).all():
        return tuple(words.select(first).to_list()), codes.astype(np.int32)
    known: dict[bytes, int] = {}
    listed = [known.setdefault(value, len(known)) for value in words.to_list()]
    return tuple(known), np.array(listed, np.int32)


def _extra_hashes(lanes: Lanes, count: int) -> Ints:
    """Return the `extra_hash` of each file."""
    out = np.zeros(count, np.uint64)
    for name, weight in zip(_EXTRAS, EXTRA_WEIGHTS, strict=True):
        for record, start, length in lanes.out.sparse[name]:
            total = out[record] + hash_slices(lanes.data, start, length) * np.uint64(weight)
            out[record] = total
    for name in _EXTRAS:
        for record, _, _ in lanes.out.sparse[name]:
            out[record] = np.maximum(out[record], np.uint64(1))
    return out
