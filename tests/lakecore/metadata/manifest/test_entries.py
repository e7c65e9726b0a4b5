"""Columns over entries: selection, concatenation, and strings as words."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakecore.metadata.key_order import comparable, key_order
from lakecore.metadata.manifest.byte_words import WORD_PADDING, ByteWords, hash_bytes, hash_slices
from lakecore.metadata.manifest.data_file import EMPTY_ROW, EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.manifest_stats import describe_manifest, partition_stats
from lakecore.row.binary_row import decode_row, encode_row
from tests.support.builders import data_file, manifest_entry, table_schema

ROWS = [
    manifest_entry(
        data_file(f"f{i}", level=i % 3, rows=i, size=100 + i, sequence=(i, i + 9)),
        kind=EntryKind(i % 2),
        partition=EMPTY_ROW[:-1] + bytes([i % 4]),
        bucket=i % 5,
    )
    for i in range(20)
]


def test_rows_come_back() -> None:
    entries = ManifestEntries.from_rows(ROWS)
    assert entries.rows() == list(entries) == ROWS
    assert entries.row(7) == ROWS[7]
    assert entries.names() == [row.file.file_name.encode() for row in ROWS]
    assert entries.partition_of(6) == ROWS[6].partition
    assert entries.row_count.tolist() == list(range(20))
    assert entries.delete_row_count.tolist() == [0] * 20
    assert entries.first_row_id.tolist() == [-1] * 20


def test_select_takes_masks_positions_and_slices() -> None:
    entries = ManifestEntries.from_rows(ROWS)
    assert entries.select(entries.bucket == 2).rows() == ROWS[2::5]
    assert entries.select(np.array([5, 1])).rows() == [ROWS[5], ROWS[1]]
    assert entries.select([3]).rows() == [ROWS[3]]
    assert entries.select(slice(4, 6)).select([1]).rows() == [ROWS[5]]


def test_concat_joins_partition_codes() -> None:
    first, second = (ManifestEntries.from_rows(part) for part in (ROWS[:7][::-1], ROWS[5:]))
    both = ManifestEntries.concat([first, ManifestEntries.empty(), second.select(slice(1, None))])
    assert both.rows() == ROWS[:7][::-1] + ROWS[6:]
    assert len(set(both.partitions)) == len(both.partitions)
    assert both.select([0, 7, 8]).names() == [b"f6", b"f6", b"f7"]


def test_entries_pickle() -> None:
    entries = ManifestEntries.from_rows(ROWS)
    assert pickle.loads(pickle.dumps(entries)).rows() == ROWS


@given(st.lists(st.binary(max_size=40), max_size=9))
def test_strings_as_words(values: list[bytes]) -> None:
    words = ByteWords.from_bytes(values)
    assert words.to_list() == values
    buffer = np.frombuffer(b"x" + b"".join(values) + bytes(WORD_PADDING), np.uint8)
    length = np.array([len(value) for value in values], np.int64)
    start = np.cumsum(length) - length + 1
    sliced = ByteWords.from_slices(buffer, start, length)
    assert sliced.to_list() == values
    assert words.hashes().tolist() == hash_bytes(values).tolist() == sliced.hashes().tolist()
    assert hash_slices(buffer, start, length).tolist() == words.hashes().tolist()
    left, right = np.divmod(np.arange(len(values) ** 2), max(len(values), 1))
    assert words.same(left, right).tolist() == [a == b for a in values for b in values]
    assert ByteWords.assemble(len(values), [(np.arange(len(values)), words)]).to_list() == values


def test_description_of_a_manifest() -> None:
    """Bounds of each partition column on its own; nulls counted by entry; DELETE entries count too."""
    kind = table_schema("p INT, q STRING, k INT", primary_keys=(), partition_keys=("p", "q")).partition_type
    values = [(3, "b"), (1, None), (3, "b"), (None, "z")]
    rows = [
        manifest_entry(data_file(f"f{i}", level=i), partition=encode_row(value, kind), bucket=7 - i)
        for i, value in enumerate(values)
    ]
    rows[1] = replace(rows[1], kind=EntryKind.DELETE)
    entries = ManifestEntries.from_rows(rows)
    found = describe_manifest(entries, "m", 5, kind)
    assert (found.num_added_files, found.num_deleted_files, found.entry_count) == (3, 1, 4)
    assert (found.min_bucket, found.max_bucket, found.min_level, found.max_level) == (4, 7, 0, 3)
    assert decode_row(found.partition_stats.min_values, kind) == (1, "b")
    assert decode_row(found.partition_stats.max_values, kind) == (3, "z")
    assert found.partition_stats.null_counts == (1, 1)
    assert (found.min_row_id, found.max_row_id) == (None, None)
    assert partition_stats(entries.select([3]), kind).min_values == encode_row((None, "z"), kind)


def test_row_ids_are_described_when_every_file_has_them() -> None:
    rows = [manifest_entry(replace(data_file(f"f{i}", rows=10), first_row_id=10 * i)) for i in range(3)]
    kind = table_schema().partition_type
    found = describe_manifest(ManifestEntries.from_rows(rows), "m", 5, kind)
    assert (found.min_row_id, found.max_row_id) == (0, 29)


def test_order_of_keys() -> None:
    floats = [float("-inf"), -1.0, -0.0, 0.0, 1.0, float("inf"), float("nan")]
    mixed = [floats[i] for i in (6, 3, 0, 5, 2, 4, 1)]
    assert list(map(str, sorted(mixed, key=comparable))) == list(map(str, floats))
    assert comparable(float("-nan")) == comparable(float("nan")) != comparable(float("inf"))
    texts = ["", "\0", "\0\1", "a", "a\0", "ab", "\uffff", "\U0001f680"]  # not by UTF-16 units
    assert [text.encode() for text in sorted(texts, key=comparable)] == sorted(t.encode() for t in texts)
    kind = table_schema("a INT NOT NULL, b STRING NOT NULL", primary_keys=("a", "b")).key_type
    keys = [(-1, "b"), (0, "a"), (0, "ab"), (256, "")]
    order = key_order(kind)
    assert sorted((encode_row(key, kind) for key in keys[::-1]), key=order) == [
        encode_row(key, kind) for key in keys
    ]
