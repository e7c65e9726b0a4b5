"""This module decodes many avro manifests at once, straight into columns: the fast way to a plan over very
many files.

Blocks are inflated in a thread while the ones before are decoded in lock-step (`vectorized`). Of each entry
the columns of `ManifestEntries` and its file name are kept, and where its record lies in its block.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.format.avro.container import AvroContainer
from lakecore.format.avro.values import skip_function
from lakecore.format.avro.vectorized import (
    LaneOutput,
    Lanes,
    compile_root,
    decode_blocks,
    lanes_of,
)
from lakecore.format.manifest.blocks import KEY_FIELDS, BlockSource
from lakecore.format.manifest.groups import BlockGroup, GroupBuffers, read_groups
from lakecore.format.manifest.records import entry_from_record
from lakecore.format.manifest.schemas import MANIFEST_VERSION, has_unknown_fields
from lakecore.metadata.file_names import checked_words
from lakecore.metadata.manifest.byte_words import ByteWords, hash_slices
from lakecore.metadata.manifest.entries import EXTRA_WEIGHTS, ManifestEntries
from lakecore.metadata.manifest.entry_request import EntryRequest

__all__ = ["decode_columns"]

logger = logging.getLogger(__name__)

I64: TypeAlias = npt.NDArray[np.int64]
Ints: TypeAlias = npt.NDArray[Any]

_MAX_BYTES = 512
_INT32 = (-(1 << 31), (1 << 31) - 1)

_LONGS = {
    "_VERSION": None, "_KIND": None, "_BUCKET": None, "_TOTAL_BUCKETS": None, "_FILE._FILE_SIZE": None,
    "_FILE._ROW_COUNT": None, "_FILE._MIN_SEQUENCE_NUMBER": None, "_FILE._MAX_SEQUENCE_NUMBER": None,
    "_FILE._SCHEMA_ID": None, "_FILE._LEVEL": None, "_FILE._DELETE_ROW_COUNT": -1, "_FILE._FIRST_ROW_ID": -1,
}  # fmt: skip
"""Fields that become columns, and what stands for null."""
_BYTES = ("_PARTITION", "_FILE._FILE_NAME")
_LONGEST_KEY = 64
"""The bytes up to which keys are kept; longer ones are decoded again when they are asked for."""
_EXTRAS = ("_FILE._EXTRA_FILES", "_FILE._EMBEDDED_FILE_INDEX", "_FILE._EXTERNAL_PATH")
_REQUIRED = frozenset((*(name for name, default in _LONGS.items() if default is None), *_BYTES, *KEY_FIELDS))


def decode_columns(
    containers: Iterable[AvroContainer], known_columns: frozenset[str], request: EntryRequest
) -> ManifestEntries:
    """Return the entries of manifests, in order: all of them, or at least those of the request.
    `known_columns` are the columns that a rewrite keeps.

    It iterates over `containers` in another thread, to read ahead. Raises CorruptDataError naming the file,
    UnsupportedError for another version or codec, and whatever the iteration raises.
    """
    parts = list(_decode_groups(containers, known_columns, request))  # its buffers are free now
    return ManifestEntries.concat(parts)


def _decode_groups(
    containers: Iterable[AvroContainer], known_columns: frozenset[str], request: EntryRequest
) -> Iterator[ManifestEntries]:
    """Yield the entries of each group."""
    buffers = GroupBuffers()
    groups = read_groups(containers, request, buffers)
    with ThreadPoolExecutor(1, thread_name_prefix="inflate") as pool:
        ahead = pool.submit(next, groups, None)
        while (group := ahead.result()) is not None:
            ahead = pool.submit(next, groups, None)
            entries = _decode_group(group, request)
            buffers.release(group.buffer)
            unknown = has_unknown_fields(group.schema_text, known_columns)
            left_out = entries.left_out + group.left_out
            yield replace(entries, has_unknown_columns=unknown, left_out=left_out)


def _decode_group(group: BlockGroup, request: EntryRequest) -> ManifestEntries:
    """Decode a group in lock-step; where that fails, for damage or a rare schema, decode one manifest after
    the other, which explains what is wrong.
    """
    if not group.blocks:
        return ManifestEntries.empty()
    try:
        return _lock_step(group, request)
    except (ValueError, IndexError) as err:
        logger.info("%s and other manifests are decoded record by record: %s", group.blocks[0][0].path, err)
        entries = _one_by_one(group)
        return replace(entries, slow_entries=len(entries))


def _one_by_one(group: BlockGroup) -> ManifestEntries:
    rows = []
    start = 0
    for (container, block), end in zip(group.blocks, group.ends.tolist(), strict=True):
        records = container.records(block.count, group.data[start:end].tobytes())
        rows += [entry_from_record(record, container.path) for record in records]
        start = end
    return ManifestEntries.from_rows(rows)


def _lock_step(group: BlockGroup, request: EntryRequest) -> ManifestEntries:
    """Decode a group in lock-step. Raises ValueError or IndexError for damage, and for schemas that have no
    lock-step form.
    """
    counts = np.array([block.count for _, block in group.blocks], np.int64)
    records = int(counts.sum())
    names = _BYTES + KEY_FIELDS if request.keys else _BYTES
    out = LaneOutput(
        required=_REQUIRED,
        longs={name: _column(records, default) for name, default in _LONGS.items()},
        starts={name: np.empty(records, np.int64) for name in names},
        lengths={name: np.empty(records, np.int64) for name in names},
        sparse={name: [] for name in _EXTRAS},
    )
    schema = group.blocks[0][0].schema
    run = compile_root(schema, out)
    lanes = lanes_of(group.data, out)
    at = decode_blocks(run, skip_function(schema), lanes, group.ends, counts)
    if (out.longs["_VERSION"] != MANIFEST_VERSION).any():
        raise ValueError("a record has another version")
    partitions, codes = _dictionary_codes(_words(lanes, "_PARTITION", slice(None)))
    rows = _requested_rows(partitions, codes, request)
    starts = np.concatenate([[0], group.ends[:-1]])
    block = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    source = BlockSource(
        blocks=group.blocks,
        block=block[rows],
        offset=(at - starts[block])[rows].astype(np.int32),
        end=(np.append(at[1:], group.ends[-1]) - starts[block])[rows].astype(np.int32),
        words=checked_words(_words(lanes, "_FILE._FILE_NAME", rows), "_FILE_NAME"),
        kept_keys=_kept_keys(lanes, rows) if request.keys else None,
    )
    return _entries(lanes, source, rows, (partitions, codes[rows]))


Rows: TypeAlias = Ints | slice
"""These are the records of a group that are wanted."""


def _requested_rows(partitions: tuple[bytes, ...], codes: Ints, request: EntryRequest) -> Rows:
    if request.partitions is None:
        return slice(None)
    rows = request.partitions(partitions)
    return slice(None) if rows.all() else np.flatnonzero(rows[codes])


def _column(count: int, default: int | None) -> I64:
    """Return space for values, which is filled only where a record may lack one."""
    return np.empty(count, np.int64) if default is None else np.full(count, default, np.int64)


def _kept_keys(lanes: Lanes, rows: Rows) -> tuple[ByteWords, ByteWords] | None:
    """Return the lowest and highest keys of files, unless they are long."""
    if any(int(lanes.out.lengths[name][rows].max(initial=0)) > _LONGEST_KEY for name in KEY_FIELDS):
        return None
    return _words(lanes, KEY_FIELDS[0], rows), _words(lanes, KEY_FIELDS[1], rows)


def _words(lanes: Lanes, name: str, rows: Rows) -> ByteWords:
    start, length = lanes.out.starts[name][rows], lanes.out.lengths[name][rows]
    if int(length.max(initial=0)) > _MAX_BYTES:
        raise ValueError(f"a {name} takes {length.max()} bytes, which are too many")
    return ByteWords.from_slices(lanes.data, start, length)


def _entries(
    lanes: Lanes, source: BlockSource, rows: Rows, coded: tuple[tuple[bytes, ...], Ints]
) -> ManifestEntries:
    partitions, codes = coded
    count, records = len(codes), len(lanes.out.longs["_VERSION"])
    longs = {name: column[rows] for name, column in lanes.out.longs.items()}
    file = {name.removeprefix("_FILE."): column for name, column in longs.items()}
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
        extra_hash=_extra_hashes(lanes, records)[rows],
        source=np.zeros(count, np.int32),
        position=np.arange(count, dtype=np.int64),
        partitions=partitions,
        sources=(source,),
        left_out=records - count,
    )


def _narrow(column: I64, low: int, high: int, dtype: type) -> Ints:
    if len(column) and not low <= int(column.min()) <= int(column.max()) <= high:
        raise ValueError(f"a value lies outside of [{low}, {high}]")
    return column.astype(dtype)


def _dictionary_codes(words: ByteWords) -> tuple[tuple[bytes, ...], Ints]:
    """Return the distinct strings, and the number of the string of each lane."""
    _, first, codes = np.unique(words.hashes(), return_index=True, return_inverse=True)
    if words.same(np.arange(len(words)), first[codes]).all():
        return tuple(words.select(first).to_list()), codes.astype(np.int32)
    code_of: dict[bytes, int] = {}
    listed = [code_of.setdefault(value, len(code_of)) for value in words.to_list()]
    return tuple(code_of), np.array(listed, np.int32)


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
