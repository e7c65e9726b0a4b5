"""Manifests: what Java wrote is read and written back unchanged, the two decoders agree, damage is named."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.errors import CorruptDataError, LakeError, UnsupportedError
from lakecore.format.manifest import manifests as codec
from lakecore.format.manifest.manifests import (
    decode_manifest,
    decode_manifest_list,
    decode_manifests,
    encode_manifest,
    encode_manifest_list,
    encode_manifests,
)
from lakecore.format.manifest.schemas import MANIFEST_LIST_SCHEMA, MANIFEST_SCHEMA
from lakecore.metadata.manifest.data_file import DataFile, EntryKind, FileSource, ManifestEntry, SimpleStats
from lakecore.metadata.manifest.entries import NO_TIME, ManifestEntries
from lakecore.metadata.manifest.stats_rows import StatsPart
from tests.support.golden import golden_tables

FORMATS = ("avro", "parquet", "orc")


@pytest.fixture
def in_lock_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a single entry is decoded the way that many are."""
    monkeypatch.setattr(codec, "MANY_ENTRIES", 0)


def golden_manifests(kind: str) -> Iterator[tuple[bytes, str]]:
    """Two of every table: `list` or `manifest`."""
    for table in golden_tables():
        files = sorted((table.path / "manifest").glob("manifest-*"))
        wanted = [f for f in files if ("manifest-list-" in f.name) == (kind == "list")]
        for file in wanted[-2:]:
            yield file.read_bytes(), str(file)


def entry(number: int = 0, **changes: Any) -> ManifestEntry:
    """An entry with every column set; `changes` are of the data file."""
    row = bytes([0, 0, 0, 1]) + bytes(8) + number.to_bytes(8, "little", signed=True)
    file = DataFile(
        file_name=f"data-{number}-ü.parquet",
        file_size=1 << 40 | number,
        row_count=number,
        min_key=row,
        max_key=row,
        key_stats=SimpleStats(row, row, (0,)),
        value_stats=SimpleStats(row, row, (None, number, 300)),
        min_sequence_number=-number,
        max_sequence_number=(1 << 62) + number,
        schema_id=number % 3,
        level=number % 6,
        extra_files=("a.index",) if number % 5 == 1 else (),
        creation_time=1_700_000_000_000 + number,
        delete_row_count=None if number % 4 == 0 else number,
        embedded_index=b"\x00index" if number % 7 == 2 else None,
        file_source=FileSource(number % 2),
        value_stats_cols=("a", "b", "c") if number % 3 == 0 else None,
        external_path="s3://b/x" if number % 11 == 5 else None,
        first_row_id=number if number % 2 else None,
        write_cols=("a",) if number % 13 == 1 else None,
    )
    return ManifestEntry(
        kind=EntryKind(number % 2),
        partition=row[:12] + bytes([number % 4]) + bytes(7),
        bucket=number % 9 - 2,
        total_buckets=-1,
        file=replace(file, **changes),
    )


def assert_same(left: ManifestEntries, right: ManifestEntries) -> None:
    """Equal columns and equal rows, whatever holds the details."""
    for name in (f.name for f in fields(left)):
        a, b = getattr(left, name), getattr(right, name)
        if isinstance(a, np.ndarray) and name not in ("partition", "source", "position"):
            assert a.dtype == b.dtype, name
            assert a.tolist() == b.tolist(), name
    assert left.rows() == right.rows()
    assert left.names() == right.names()
    assert left.has_unknown_columns == right.has_unknown_columns


def test_golden_manifests_survive_a_round_trip() -> None:
    seen = 0
    for data, path in golden_manifests("manifest"):
        entries = decode_manifest(data, path)
        assert not entries.has_unknown_columns
        assert decode_manifest(encode_manifest(entries), "again").rows() == entries.rows()
        seen += len(entries)
    assert seen > 300


def test_golden_lists_survive_a_round_trip() -> None:
    seen = 0
    for data, path in golden_manifests("list"):
        files = decode_manifest_list(data, path)
        assert decode_manifest_list(encode_manifest_list(files), "again") == files
        seen += len(files)
    assert seen > 500


def test_fastavro_agrees_on_golden_manifests() -> None:
    """A reader that shares no code with ours sees the same file names, sizes and bounds."""
    for data, path in list(golden_manifests("manifest"))[::5]:
        if data[:4] != b"Obj\x01":
            continue
        theirs = [
            (r["_FILE"]["_FILE_NAME"], r["_FILE"]["_FILE_SIZE"], r["_FILE"]["_VALUE_STATS"]["_MAX_VALUES"])
            for r in fastavro.reader(io.BytesIO(data))
        ]
        ours = decode_manifest(data, path).files()
        assert [(f.file_name, f.file_size, f.value_stats.max_values) for f in ours] == theirs


@pytest.mark.parametrize("kind", FORMATS)
def test_every_column_survives(kind: str) -> None:
    rows = [entry(number) for number in range(30)]
    assert decode_manifest(encode_manifest(rows, kind), "m").rows() == rows


@pytest.mark.parametrize("kind", FORMATS)
def test_an_empty_list_is_a_file(kind: str) -> None:
    assert decode_manifest_list(encode_manifest_list((), kind), "l") == ()
    assert len(decode_manifest(encode_manifest([], kind), "m")) == 0


def test_written_schema_is_that_of_java(golden: Any) -> None:
    """Field order, types and record names equal those of release 1.4.2 and 2.0, byte for byte."""
    for table in ("g1.a_pk_seq", "g3.h3_pk_seq"):
        for file in sorted((golden(table).path / "manifest").glob("manifest-*")):
            found = fastavro.reader(io.BytesIO(file.read_bytes())).metadata["avro.schema"]
            wanted = MANIFEST_LIST_SCHEMA if "manifest-list" in file.name else MANIFEST_SCHEMA
            assert found == wanted


# --- many entries at once


@pytest.mark.usefixtures("in_lock_step")
def test_lock_step_agrees_with_rows_on_golden_manifests() -> None:
    files = list(golden_manifests("manifest"))
    for data, path in files[::3]:
        assert_same(decode_manifest(data, path), _by_rows([(data, path)]))
    assert_same(decode_manifests(files), _by_rows(files))


def _by_rows(files: list[tuple[bytes, str]]) -> ManifestEntries:
    many = codec.MANY_ENTRIES
    codec.MANY_ENTRIES = 1 << 60
    try:
        return decode_manifests(files)
    finally:
        codec.MANY_ENTRIES = many


@pytest.mark.usefixtures("in_lock_step")
@pytest.mark.parametrize("lanes", [1, 1000])
def test_lock_step_agrees_on_every_kind_of_value(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether blocks are walked together or (too few for that) one by one."""
    monkeypatch.setattr("lakecore.format.avro.vectorized._MIN_LANES", lanes)
    monkeypatch.setattr("lakecore.format.avro.container._BLOCK_SIZE", 700)
    data = encode_manifest([entry(number) for number in [*range(150), 1 << 40, (1 << 62) - 1]])
    assert_same(decode_manifest(data, "m"), _by_rows([(data, "m")]))


@pytest.mark.usefixtures("in_lock_step")
def test_statistics_agree_whatever_holds_them() -> None:
    rows = [entry(number) for number in range(60)]
    lazy = decode_manifest(encode_manifest(rows), "m")
    plain = ManifestEntries.from_rows(rows)
    for part in StatsPart:
        assert _stats(lazy, part) == _stats(plain, part)


@pytest.mark.usefixtures("in_lock_step")
def test_times_agree_whatever_holds_them() -> None:
    for data, path in list(golden_manifests("manifest"))[::5]:
        entries = decode_manifest(data, path)
        made = [NO_TIME if file.creation_time is None else file.creation_time for file in entries.files()]
        assert entries.times().tolist() == made
        mixed = ManifestEntries.concat([entries, ManifestEntries.from_rows(entries.rows())])
        assert mixed.times().tolist() == made * 2
        assert max(mixed.newest().tolist(), default=0) == max([0, *made])


def _stats(entries: ManifestEntries, part: StatsPart) -> dict[int, Any]:
    out = {}
    for places, stats in entries.stats(part):
        for i, place in enumerate(places.tolist()):
            low = stats.buffer[stats.minimum[i] :][: stats.minimum_length[i]].tobytes()
            high = stats.buffer[stats.maximum[i] :][: stats.maximum_length[i]].tobytes()
            out[place] = low, high, stats.null_counts[i].tolist(), stats.columns[stats.column_code[i]]
    return out


@pytest.mark.usefixtures("in_lock_step")
def test_details_are_decoded_for_the_asked_entries_in_their_order() -> None:
    rows = [entry(number) for number in range(100)]
    entries = decode_manifest(encode_manifest(rows), "m")
    assert entries.row(17) == rows[17]
    assert entries.rows(np.array([90, 3, 44])) == [rows[90], rows[3], rows[44]]
    both = ManifestEntries.concat([entries.select(slice(50, 60)), ManifestEntries.from_rows(rows[:5])])
    assert both.rows() == rows[50:60] + rows[:5]


@pytest.mark.usefixtures("in_lock_step")
def test_stored_records_are_copied_and_may_turn_into_deletes() -> None:
    rows = [entry(number) for number in range(300)]
    stored = decode_manifest(encode_manifest(rows), "m")
    mixed = ManifestEntries.concat(
        [stored.select(slice(None, None, -3)), ManifestEntries.from_rows(rows[:9])]
    )
    assert decode_manifest(encode_manifest(mixed), "m").rows() == mixed.rows()
    turned = replace(mixed, kind=np.ones(len(mixed), np.int8))
    found = decode_manifest(encode_manifest(turned), "m")
    assert set(found.kind.tolist()) == {1}
    assert found.files() == mixed.files()


@pytest.mark.usefixtures("in_lock_step")
def test_records_of_an_older_schema_are_encoded_anew() -> None:
    schema, records = _schema(), _records([entry(3)])
    schema["fields"][5]["type"]["fields"] = schema["fields"][5]["type"]["fields"][:13]
    old = decode_manifest(_avro(records, schema), "m")
    assert decode_manifest(encode_manifest(old), "m").rows() == old.rows()


def test_mixed_formats_keep_their_order() -> None:
    rows = [entry(number) for number in range(9)]
    files = [
        (encode_manifest(rows[i : i + 3], kind), kind) for i, kind in zip((0, 3, 6), FORMATS, strict=True)
    ]
    assert decode_manifests(files).rows() == rows
    assert decode_manifests(files[::-1]).rows() == rows[6:] + rows[3:6] + rows[:3]


def test_rolling_cuts_at_the_target_size() -> None:
    entries = ManifestEntries.from_rows([entry(number) for number in range(1500)])
    parts = list(encode_manifests([entries], 5_000))
    assert len(parts) > 3
    assert all(len(data) < 40_000 for _, data in parts)
    assert [row for part, _ in parts for row in part.rows()] == entries.rows()
    assert [row for _, data in parts for row in decode_manifest(data, "m").rows()] == entries.rows()


# --- older, newer and foreign files


def _avro(records: list[dict[str, Any]], schema: Any, codec_name: str = "null") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), records, codec=codec_name)
    return out.getvalue()


def _records(rows: list[ManifestEntry]) -> list[dict[str, Any]]:
    return list(fastavro.reader(io.BytesIO(encode_manifest(rows))))


def _schema() -> Any:
    import json

    return json.loads(MANIFEST_SCHEMA)


@pytest.mark.parametrize("many", [0, 1 << 60])
@pytest.mark.parametrize("codec_name", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_codecs(codec_name: str, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MANY_ENTRIES", many)
    rows = [entry(number) for number in range(20)]
    data = _avro(_records(rows), _schema(), codec_name)
    assert decode_manifest(data, "m").rows() == rows


@pytest.mark.parametrize("many", [0, 1 << 60])
def test_unknown_columns_are_read_over_and_remembered(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MANY_ENTRIES", many)
    rows = [entry(number) for number in range(5)]
    schema, records = _schema(), _records(rows)
    file = schema["fields"][5]["type"]["fields"]
    file.append({"name": "_WRITE_COLS_SEQUENCES", "type": ["null", {"type": "array", "items": "long"}]})
    schema["fields"].append({"name": "_NOTE", "type": {"type": "map", "values": "double"}})
    for record in records:
        record["_FILE"]["_WRITE_COLS_SEQUENCES"] = [1, 2]
        record["_NOTE"] = {"x": 0.5}
    entries = decode_manifest(_avro(records, schema), "m")
    assert entries.has_unknown_columns
    assert entries.rows() == rows
    assert ManifestEntries.concat([ManifestEntries.empty(), entries]).has_unknown_columns
    plain = encode_manifest(rows)
    assert not decode_manifest(plain, "m").has_unknown_columns
    several = [(plain, "l"), (_avro(records, schema), "m"), (plain, "n")]
    for some in (several, several[1:], several[:2], [(encode_manifest(rows, "parquet"), "k"), *several]):
        assert decode_manifests(some).has_unknown_columns


@pytest.mark.parametrize("many", [0, 1 << 60])
def test_columns_that_old_writers_lack_are_none(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MANY_ENTRIES", many)
    schema, records = _schema(), _records([entry(3)])
    schema["fields"][5]["type"]["fields"] = schema["fields"][5]["type"]["fields"][:13]
    found = decode_manifest(_avro(records, schema), "m").row(0).file
    assert (found.delete_row_count, found.file_source, found.value_stats_cols) == (None, None, None)
    assert found.file_name == entry(3).file.file_name


@pytest.mark.parametrize("many", [0, 1 << 60])
def test_another_version_is_refused(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MANY_ENTRIES", many)
    records = _records([entry(3)])
    records[0]["_VERSION"] = 3
    with pytest.raises(UnsupportedError, match=r"dir/m: the manifest has version 3"):
        decode_manifest(_avro(records, _schema()), "dir/m")


@pytest.mark.parametrize("many", [0, 1 << 60])
def test_a_missing_column_is_named(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MANY_ENTRIES", many)
    schema = _schema()
    del schema["fields"][3]
    with pytest.raises(CorruptDataError, match="_BUCKET"):
        decode_manifest(_avro(_records([entry(3)]), schema), "m")


@pytest.mark.parametrize("many", [0, 1 << 60])
def test_a_null_where_a_value_is_required_is_damage(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MANY_ENTRIES", many)
    schema, records = _schema(), _records([entry(3), entry(4)])
    schema["fields"][3]["type"] = ["null", "int"]
    assert decode_manifest(_avro(records, schema), "m").bucket.tolist() == [1, 2]
    records[1]["_BUCKET"] = None
    with pytest.raises(CorruptDataError, match="m: contains an invalid manifest entry"):
        decode_manifest(_avro(records, schema), "m")


# --- damage


def test_a_file_of_another_kind_is_named() -> None:
    with pytest.raises(CorruptDataError, match=r"t/manifest-1: is neither avro, parquet nor orc"):
        decode_manifest(b"PK\x03\x04zip", "t/manifest-1")
    with pytest.raises(CorruptDataError, match="l: is neither"):
        decode_manifest_list(b"", "l")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("many", [0, 1 << 60])
def test_every_cut_is_noticed(kind: str, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MANY_ENTRIES", many)
    data = encode_manifest([entry(number) for number in range(40)], kind)
    whole_header = data.index(b"zstandard") if kind == "avro" else 0
    for size in random.Random(5).sample(range(len(data)), 60):
        try:
            found = decode_manifest(data[:size], "cut")
        except LakeError as err:
            assert "cut" in str(err)  # noqa: PT017 - a cut right behind the header leaves a whole, empty file
        else:
            assert kind == "avro"
            assert len(found) == 0
            assert size > whole_header


@pytest.mark.parametrize("many", [0, 1 << 60])
@settings(max_examples=120, deadline=2000)
@given(st.data())
def test_flipped_bits_end_in_an_error_or_in_values(many: int, data: st.DataObject) -> None:
    """Never anything else: no hang, no crash, no huge allocation (blocks are stored, so every byte matters)."""
    raw = bytearray(FLIPPED)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    before, codec.MANY_ENTRIES = codec.MANY_ENTRIES, many
    try:
        decode_manifest(bytes(raw), "flipped").rows()
    except LakeError as err:
        assert "flipped" in str(err)  # noqa: PT017 - not raising is fine too
    finally:
        codec.MANY_ENTRIES = before


FLIPPED = _avro(_records([entry(number) for number in range(12)]), _schema())


def test_impossible_counts_and_lengths(tmp_path: Path) -> None:
    """A block that claims billions of records, a string longer than the file, an array of nothing."""
    data = _avro(_records([entry(1)]), _schema())
    body = data.index(data[-16:]) + 16
    huge = bytes([0xFE, 0xFF, 0xFF, 0xFF, 0x0F])
    with pytest.raises(CorruptDataError):
        decode_manifest(data[:body] + huge + data[body + 1 :], "m")
    schema = _schema()
    schema["fields"].append({"name": "_X", "type": {"type": "array", "items": "null"}})
    records = [{**record, "_X": []} for record in _records([entry(1)])]
    with pytest.raises(CorruptDataError, match="items of an array take no bytes"):
        decode_manifest(_avro(records, schema), "m")
