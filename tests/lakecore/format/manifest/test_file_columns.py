"""Data files made from columns equal those made from one record after the other, and damage is named the same way."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from lakecore.errors import CorruptDataError
from lakecore.format.manifest import blocks
from lakecore.format.manifest import manifests as codec
from lakecore.format.manifest.blocks import BlockSource
from lakecore.format.manifest.manifests import decode_manifest, decode_manifests, encode_manifest
from lakecore.metadata.manifest.data_file import EMPTY_STATS, DataFile, SimpleStats
from lakecore.metadata.manifest.entries import ManifestEntries
from tests.lakecore.format.manifest.test_manifests import _avro, _records, _schema, entry, golden_manifests


@pytest.fixture(autouse=True)
def in_lock_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a single entry is decoded the way that many are."""
    monkeypatch.setattr(codec, "MANY_ENTRIES", 0)
    monkeypatch.setattr(blocks, "_MANY_FILES", 0)


def one_by_one(entries: ManifestEntries) -> list[DataFile]:
    out: list[DataFile | None] = [None] * len(entries)
    for lanes, source in entries.by_source():
        assert isinstance(source, BlockSource)
        for lane, file in zip(lanes.tolist(), source._files(entries.position[lanes]), strict=True):
            out[lane] = file
    return [file for file in out if file is not None]


def from_columns(entries: ManifestEntries) -> list[DataFile]:
    """Fails where the way by columns is left."""
    out: list[DataFile | None] = [None] * len(entries)
    for lanes, source in entries.by_source():
        assert isinstance(source, BlockSource)
        at = entries.position[lanes]
        for places, numbers in source._runs(at):
            lanes_of_run = source._decode(at[places], numbers, blocks.file_output(len(places)))
            found = blocks.data_files(lanes_of_run, source.blocks[0][0].schema)
            for place, file in zip(lanes[places].tolist(), found, strict=True):
                out[place] = file
    return [file for file in out if file is not None]


def test_files_of_golden_manifests_are_equal() -> None:
    """Of Java 0.8 to 2.0, and none of them takes the way of damage."""
    seen = 0
    for data, path in golden_manifests("manifest"):
        if data[:4] != b"Obj\x01":
            continue
        entries = decode_manifest(data, path)
        wanted = one_by_one(entries)
        assert entries.files() == from_columns(entries) == wanted
        assert [[type(value) for value in row(file)] for file in entries.files()] == [
            [type(value) for value in row(file)] for file in wanted
        ]
        seen += len(wanted)
    assert seen > 300


def row(file: DataFile) -> list[object]:
    return [getattr(file, name) for name in DataFile.__slots__]


def test_every_kind_of_value() -> None:
    rows = [entry(number) for number in [*range(200), 1 << 40, (1 << 62) - 1]]
    entries = decode_manifest(encode_manifest(rows), "m")
    assert from_columns(entries) == [row.file for row in rows]


def test_any_files_in_any_order() -> None:
    files = [
        (encode_manifest([entry(number) for number in range(low, low + 50)]), f"m{low}")
        for low in (0, 50, 100)
    ]
    entries = decode_manifests(files)
    draw = random.Random(7)
    for count in (0, 1, 3, 150):
        at = np.array(draw.sample(range(150), count), np.int64)
        assert entries.files(at) == [entry(number).file for number in at.tolist()]


@pytest.mark.parametrize(
    "changes",
    [
        {"extra_files": ()},
        {"extra_files": ("a.index", "b.blob")},
        {"value_stats_cols": ()},
        {"write_cols": ()},
        {"value_stats_cols": ("ü", ""), "write_cols": ("a", "b")},
        {"key_stats": EMPTY_STATS, "value_stats": SimpleStats(b"\1" * 300, b"\2", (None,) * 9)},
        {"embedded_index": b""},
        {"creation_time": None, "file_source": None, "first_row_id": None, "delete_row_count": None},
        {"creation_time": -1, "first_row_id": 0, "delete_row_count": -1, "level": -1},
        {"file_size": (1 << 63) - 1, "min_sequence_number": -(1 << 63), "level": (1 << 31) - 1},
    ],
)
def test_rare_values(changes: dict[str, object]) -> None:
    rows = [entry(0), entry(3, **changes), entry(7, **changes), entry(4)]
    entries = decode_manifest(encode_manifest(rows), "m")
    assert from_columns(entries) == one_by_one(entries) == [row.file for row in rows]


def test_columns_that_are_unknown_or_missing() -> None:
    schema, records = _schema(), _records([entry(number) for number in range(9)])
    wanted = [replace(entry(number).file, write_cols=None) for number in range(9)]
    file = schema["fields"][5]["type"]["fields"]
    assert file.pop()["name"] == "_WRITE_COLS"
    file.append({"name": "_LATER", "type": ["null", {"type": "array", "items": "long"}]})
    for number, record in enumerate(records):
        record["_FILE"]["_LATER"] = [1, 2] if number % 2 else None
    entries = decode_manifest(_avro(records, schema), "m")
    assert from_columns(entries) == wanted


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("_EXTRA_FILES", ["../x"]),
        ("_EXTERNAL_PATH", "not/absolute"),
        ("_EXTERNAL_PATH", "s3://b/../x"),
        ("_FILE_SOURCE", 7),
    ],
)
def test_values_that_no_file_can_have_are_refused(field: str, value: object) -> None:
    records = _records([entry(3), entry(4)])
    records[1]["_FILE"][field] = value
    entries = decode_manifest(_avro(records, _schema()), "dir/m")
    with pytest.raises(ValueError):  # noqa: PT011 the message is that of the other way
        from_columns(entries)
    with pytest.raises((CorruptDataError, ValueError)) as caught:
        entries.files()
    with pytest.raises(type(caught.value)) as again:
        one_by_one(entries)
    assert str(caught.value) == str(again.value)


def test_damaged_blocks_end_as_they_do_one_by_one() -> None:
    """Bytes of a block change after it was decoded: both ways give the same files, or refuse."""
    rows = [entry(number) for number in range(40)]
    differ = 0
    for seed in range(300):
        draw = random.Random(seed)
        entries = decode_manifest(encode_manifest(rows), "m")
        (source,) = entries.sources
        assert isinstance(source, BlockSource)
        container, block = source.blocks[0]
        data = bytearray(container.inflate(block))
        at = draw.randrange(len(data))
        data[at] ^= 1 << draw.randrange(8)
        changed = replace(container, codec="null"), replace(block, data=bytes(data))
        damaged = replace(source, blocks=(changed,), cache={})
        places = np.arange(len(rows), dtype=np.int64)
        results = []
        for read in (damaged.files, damaged._files):
            try:
                results.append(read(places))
            except CorruptDataError:
                results.append(None)
        if results[0] != results[1]:
            differ += 1
    assert differ == 0
