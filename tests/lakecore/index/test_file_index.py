"""File indexes: what they answer is a superset of the truth, close to it; and what Java wrote comes out again."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lakecore
from lakecore.errors import CorruptDataError, InvalidOptionError, UnsupportedError
from lakecore.index import bloom_filter
from lakecore.index.builder import FileIndexBuilder
from lakecore.index.container import decode_head, encode_container
from lakecore.index.definition import IndexType, can_index, index_specs
from lakecore.index.grouped import encode_groups
from lakecore.index.search import FileIndex, matching_rows
from lakecore.index.slices import add_bits
from lakecore.index.xxhash import xxhash64
from lakecore.metadata.schema import TableSchema
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Compare, Comparison, In, IsNotNull, IsNull, NotIn, Predicate, StartsWith
from lakecore.read.file.file_reader import read_file
from lakecore.row.roaring.bitmap32 import decode_roaring, encode_roaring
from lakecore.row.values import values_array
from lakecore.types.datatypes import AtomicType, DataField, DataType, MapType, TypeRoot
from tests.support.golden import GoldenTable, golden_tables

INDEXED = [table for table in golden_tables() if any(key.startswith("file-index.") for key in table.options)]
STRING = AtomicType(TypeRoot.VARCHAR, length=2147483647)


def schema_of(kind: DataType, options: Mapping[str, str]) -> TableSchema:
    return TableSchema(id=0, fields=(DataField(0, "c", kind),), highest_field_id=0, options=options)


def built(values: pa.Array, kind: DataType, options: Mapping[str, str], step: int = 40) -> bytes:
    """The container of a column `c` that came in batches of `step` rows."""
    builder = FileIndexBuilder(index_specs(schema_of(kind, options)))
    for at in range(0, len(values), step):
        builder.add(pa.RecordBatch.from_arrays([values.slice(at, step)], ["c"]))
    return builder.encode()


def opened(data: bytes, rows: int) -> FileIndex:
    head = decode_head(data, len(data), "x.index")
    return FileIndex(head, lambda blob: data[blob.start : blob.start + blob.length], rows, "x.index")


KINDS: dict[str, tuple[AtomicType, list[Any]]] = {
    "boolean": (AtomicType(TypeRoot.BOOLEAN), [True, False]),
    "tinyint": (AtomicType(TypeRoot.TINYINT), list(range(-128, 128))),
    "smallint": (AtomicType(TypeRoot.SMALLINT), [-32768, -5, 0, 7, 32767]),
    "int": (AtomicType(TypeRoot.INT), [-(2**31), -77, -1, 0, 1, 12, 13, 2**31 - 1]),
    "bigint": (AtomicType(TypeRoot.BIGINT), [1 - 2**63, -3, 0, 5, 2**40, 2**63 - 1]),
    "float": (AtomicType(TypeRoot.FLOAT), [-math.inf, -2.5, -0.0, 0.0, 1.5, math.inf, math.nan]),
    "double": (AtomicType(TypeRoot.DOUBLE), [-math.inf, -2.5, -0.0, 0.0, 1e300, math.nan, *range(50)]),
    "date": (AtomicType(TypeRoot.DATE), [-719162, -1, 0, 1, 20000]),
    "time": (AtomicType(TypeRoot.TIME, precision=3), [0, 1, 86399999]),
    "ts3": (AtomicType(TypeRoot.TIMESTAMP, precision=3), [-1_000_000, 0, 5_000_000, 10**18]),
    "ts6": (AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=6), [-1000, 0, 5000, 10**18]),
    "ts9": (AtomicType(TypeRoot.TIMESTAMP, precision=9), [-1001, -1000, -1, 0, 1, 999, 1000, 10**18 + 1]),
    "decimal": (AtomicType(TypeRoot.DECIMAL, precision=18, scale=2), [Decimal(n).scaleb(-2) for n in (-7, 0, 10**17)]),
    "text": (STRING, ["", "a", "ab", "b", "\u00e9", "\uffff", "\U0001f680", "x" * 40, *(f"t{i}" for i in range(80))]),
    "bytes": (AtomicType(TypeRoot.VARBINARY, length=2147483647), [b"", b"\0", b"\xff" * 33, b"abc"]),
}  # fmt: skip


def some_predicate(dice: random.Random, values: list[Any]) -> Predicate:
    one, two = dice.choice(values), dice.choice(values)
    made: list[Predicate] = [Compare("c", op, one) for op in Comparison]
    made += [
        In("c", (one, two)),
        NotIn("c", (one, two)),
        In("c", ()),
        NotIn("c", ()),
        IsNull("c"),
        IsNotNull("c"),
    ]
    if isinstance(one, str):
        made += [StartsWith("c", one[: dice.randint(0, 2)])] * 3
    return dice.choice(made)


@pytest.mark.parametrize("index", list(IndexType), ids=lambda index: index.value)
@pytest.mark.parametrize("name", list(KINDS))
def test_an_answer_holds_all_rows_that_match_and_few_others(name: str, index: IndexType) -> None:
    kind, values = KINDS[name]
    if not can_index(kind, index):
        with pytest.raises(UnsupportedError, match="cannot have an index"):
            index_specs(schema_of(kind, {f"file-index.{index.value}.columns": "c"}))
        return
    dice = random.Random(f"{name} {index.value}")
    for version, size, rows in (
        ("2", "30 b", 0),
        ("1", "16 kb", 1),
        ("2", "16 kb", 400),
        ("2", "200 b", 150),
    ):
        options = {
            f"file-index.{index.value}.columns": "c",
            "file-index.bloom-filter.c.items": "50",
            "file-index.bitmap.c.version": version,
            "file-index.bitmap.c.index-block-size": size if rows else "16 kb",
            "file-index.range-bitmap.c.chunk-size": size,
        }
        options = {k: v for k, v in options.items() if k.startswith(f"file-index.{index.value}.")}
        pool = [*values, None] if dice.random() < 0.7 else values
        array = values_array([dice.choice(pool) for _ in range(rows)], kind)
        found = opened(built(array, kind, options), rows)
        batch = pa.RecordBatch.from_arrays([array], ["c"])
        for _ in range(60):
            where = some_predicate(dice, values)
            truth = BitMap(np.flatnonzero(np.asarray(mask(where, batch))).astype(np.uint32))
            answer = matching_rows(where, {"c": DataField(0, "c", kind)}, found)
            assert answer is None or truth <= answer, where
            exact = index is not IndexType.BLOOM_FILTER and name not in ("float", "double", "ts9")
            if answer is not None and exact:
                assert answer == truth, where


def test_a_column_without_any_value_answers_too() -> None:
    kinds = {
        "bloom-filter": STRING,
        "bitmap": STRING,
        "bsi": AtomicType(TypeRoot.INT),
        "range-bitmap": STRING,
    }
    for index, kind in kinds.items():
        found = opened(built(values_array([None] * 5, kind), kind, {f"file-index.{index}.columns": "c"}), 5)
        columns = {"c": DataField(0, "c", kind)}
        value = "a" if kind is STRING else 7
        assert matching_rows(Compare("c", Comparison.EQ, value), columns, found) == BitMap()
        assert matching_rows(IsNull("c"), columns, found) in (None, BitMap(range(5)))


def test_values_under_a_key_of_a_map_are_indexed() -> None:
    kind = MapType(STRING.__class__(TypeRoot.VARCHAR, length=9, nullable=False), AtomicType(TypeRoot.INT))
    maps = values_array(
        [[("a", 1), ("b", 2)], None, [], [("b", None)], [("b", 2), ("c", 9)], [("a", 5)]], kind
    )
    data = built(maps.slice(1), kind, {"file-index.bitmap.columns": "c[a],c[b]"}, step=2)
    found = opened(data, 5)
    assert set(found.head) == {"c[a]", "c[b]"}
    for name, value, rows in (("c[a]", 5, [4]), ("c[b]", 2, [3]), ("c[b]", 9, [])):
        field = DataField(0, name, AtomicType(TypeRoot.INT))
        assert matching_rows(Compare("c", Comparison.EQ, value), {"c": field}, found) == BitMap(rows)


@pytest.mark.parametrize("table", INDEXED, ids=lambda table: table.name)
def test_indexes_of_java_come_out_byte_for_byte(table: GoldenTable) -> None:
    """But for bitmaps of text, whose bitmaps lie in the order of Java's hash map."""
    opened_table = lakecore.load_catalog(str(table.warehouse)).load_table(table.name)
    latest = opened_table._stores.snapshots.latest()
    assert latest is not None
    seen = 0
    for entry in opened_table._scanner.live_entries(latest).rows():
        file = entry.file
        ctx = opened_table._read_context()
        written = replace(ctx.file_schema(file.schema_id), options=ctx.schema.options)
        directory = ctx.bucket_dir(entry.partition, entry.bucket)
        data = file.embedded_index or Path(f"{directory}/{file.extra_files[0]}").read_bytes()
        head = decode_head(data, len(data), "x.index")
        builder = FileIndexBuilder(index_specs(written))
        for batch in read_file(replace(ctx, schema=written), directory, file):
            builder.add(batch)
        mine = builder.blobs()
        assert {name: set(kinds) for name, kinds in mine.items()} == {n: set(k) for n, k in head.items()}
        for name, kinds in mine.items():
            for kind, blob in kinds.items():
                theirs = head[name][kind]
                stored = data[theirs.start : theirs.start + theirs.length]
                if (
                    kind == "bitmap"
                    and isinstance(written.row_type.field(name).type, AtomicType)
                    and name == "s"
                ):
                    assert blob is not None
                    assert len(blob) == len(stored)
                else:
                    assert blob == stored, (name, kind)
                seen += 1
    assert seen


def test_long_and_short_strings_hash_as_xxhash64_does() -> None:
    """Values of the reference implementation, and of Java Paimon ("s0")."""
    known = {
        b"": 0xEF46DB3751D8E999,
        b"a": 0xD24EC4F1A98C6E5B,
        b"abc": 0x44BC2CF5AD770999,
        b"s0": 2878291886811832382,
        b"Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
        b"xxhash" * 20: None,
    }
    array = pa.array(list(known), pa.large_binary())
    hashes = dict(zip(known, xxhash64(array.slice(0)).tolist(), strict=True))
    assert {data: hashes[data] for data, value in known.items() if value is not None} == {
        data: value for data, value in known.items() if value is not None
    }
    assert xxhash64(array.slice(5)).tolist() == [hashes[b"xxhash" * 20]]


@pytest.mark.parametrize(
    "rows",
    [[], [0], [7, 9, 65535, 65536], list(range(9000)), list(range(0, 20000, 2)), [i << 16 for i in range(9)]],
    ids=["none", "first", "few", "run", "bit set", "containers"],
)
def test_bitmaps_come_back_and_damage_is_seen(rows: list[int]) -> None:
    data = encode_roaring(BitMap(rows))
    assert decode_roaring(b"xx" + data + b"yy", 2, "p") == (BitMap(rows), 2 + len(data))
    dice = random.Random(1)
    for _ in range(300):
        damaged = bytearray(data)
        damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
        cut = bytes(damaged[: dice.choice((len(data), dice.randrange(len(data) + 1)))])
        try:
            found, _ = decode_roaring(cut, 0, "p")
        except CorruptDataError:
            continue
        assert BitMap(found.to_array()) == found


@pytest.mark.parametrize("index", list(IndexType), ids=lambda index: index.value)
def test_damaged_indexes_are_refused_or_answer(index: IndexType) -> None:
    """Never another exception, whatever the bytes."""
    dice = random.Random(index.value)
    for kind, values in (KINDS["int"], KINDS["text"], KINDS["bigint"]):
        if not can_index(kind, index):
            continue
        array = values_array([dice.choice([*values, None]) for _ in range(100)], kind)
        options = {f"file-index.{index.value}.columns": "c"}
        if index is IndexType.BLOOM_FILTER:
            options["file-index.bloom-filter.c.items"] = "50"
        data = built(array, kind, options)
        for _ in range(400):
            damaged = bytearray(data)
            for _ in range(dice.randint(1, 3)):
                damaged[dice.randrange(len(damaged))] = dice.choice(
                    (0, 1, 127, 128, 255, dice.randrange(256))
                )
            cut = bytes(damaged[: dice.choice((len(data), dice.randrange(len(data) + 1)))])
            try:
                answer = matching_rows(
                    some_predicate(dice, values), {"c": DataField(0, "c", kind)}, opened(cut, 100)
                )
            except CorruptDataError:
                continue
            assert answer is None or answer <= BitMap(range(100))


def test_names_in_a_container_are_in_modified_utf8() -> None:
    blobs = {"a": {"bitmap": b"xy", "bsi": None}, "n\0\u00e9\U0001f680[k]": {"bloom-filter": b"z"}}
    data = encode_container(blobs)
    assert b"n\xc0\x80\xc3\xa9\xed\xa0\xbd\xed\xba\x80[k]" in data
    head = decode_head(data, len(data), "p")
    read = {
        name: {kind: None if b.empty else data[b.start : b.start + b.length] for kind, b in kinds.items()}
        for name, kinds in head.items()
    }
    assert read == blobs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"file-index.bloom-filter.columns": "x"}, "no column 'x'"),
        ({"file-index.bloom-filter.columns": "c,"}, "empty column"),
        ({"file-index.magic.columns": "c"}, "there is no index type 'magic'"),
        ({"file-index.bloom-filter.c.items": "5"}, "is missing in option file-index.bloom-filter.columns"),
        ({"file-index.bloom-filter.columns": "c", "file-index.bloom-filter.c.items": "0"}, "above 0"),
        ({"file-index.bloom-filter.columns": "c", "file-index.bloom-filter.c.items": "x"}, "whole number"),
        ({"file-index.bloom-filter.columns": "c", "file-index.bloom-filter.c.fpp": "1"}, "between 0 and 1"),
        (
            {"file-index.bloom-filter.columns": "c", "file-index.bloom-filter.c.items": "999999999"},
            "lower items",
        ),
        ({"file-index.bitmap.columns": "c", "file-index.bitmap.c.version": "3"}, "must be 1 or 2"),
        (
            {"file-index.bitmap.columns": "c", "file-index.bitmap.c.index-block-size": "5 b"},
            "at least 12 bytes",
        ),
        ({"file-index.bitmap.columns": "c[k]"}, "not a MAP"),
        ({"file-index.bitmap.columns": "c", "file-index.in-manifest-threshold": "much"}, "not a size"),
    ],
)
def test_options_that_cannot_be_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        index_specs(schema_of(STRING, options))


def test_values_that_an_index_cannot_hold_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="cannot hold the value"):
        built(pa.array([-(2**63)]), AtomicType(TypeRoot.BIGINT), {"file-index.bsi.columns": "c"})
    with pytest.raises(InvalidOptionError, match="does not fit"):
        built(pa.array(["x" * 40]), STRING,
              {"file-index.bitmap.columns": "c", "file-index.bitmap.c.index-block-size": "20 b"})  # fmt: skip


@pytest.mark.parametrize("rows", [1, 900, 70_000, 200_000])
def test_bitmaps_of_many_groups_are_those_of_the_library(rows: int) -> None:
    dice = np.random.default_rng(rows)
    for groups in (1, 7, max(rows // 3, 1)):
        codes = np.sort(dice.integers(0, groups, rows)) if groups == 7 else dice.integers(0, groups, rows)
        codes[dice.integers(0, rows, rows // 4)] = 0
        _, codes, counts = np.unique(codes, return_inverse=True, return_counts=True)
        order = np.argsort(codes, kind="stable").astype(np.uint32)
        body, lengths = encode_groups(order, counts)
        parts = np.split(order, np.cumsum(counts)[:-1])
        wanted = [encode_roaring(BitMap(part)) for part in parts]
        assert lengths.tolist() == [len(data) for data in wanted]
        assert body == b"".join(wanted)


def test_a_bloom_filter_of_many_bits_is_that_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = AtomicType(TypeRoot.BIGINT)
    options = {"file-index.bloom-filter.columns": "c", "file-index.bloom-filter.c.items": "3000"}
    values = pa.array(np.random.default_rng(1).integers(-(2**63), 2**63, 3000))
    small = built(values, kind, options, 1000)
    monkeypatch.setattr(bloom_filter, "_SMALL_BITS", 0)
    assert built(values, kind, options, 1000) == small


@pytest.mark.parametrize("kind", ["int", "text"])
def test_a_range_bitmap_without_a_value_is_empty(kind: str) -> None:
    """Java finds only two of the nulls in one that is not."""
    data_type = KINDS[kind][0]
    data = built(values_array([None] * 90, data_type), data_type, {"file-index.range-bitmap.columns": "c"})
    index = opened(data, 90)
    assert index.head["c"]["range-bitmap"].empty
    fields = {"c": DataField(0, "c", data_type)}
    assert matching_rows(IsNull("c"), fields, index) is None
    assert matching_rows(IsNotNull("c"), fields, index) == BitMap()


def test_slices_of_more_rows_than_a_container_has() -> None:
    """Containers of 65,536 rows are made one by one, also where most of their bits are set."""
    rows = np.arange(3 * (1 << 16) + 9000, dtype=np.uint32)
    numbers = (rows % 5).astype(np.uint64)
    slices = [BitMap() for _ in range(3)]
    add_bits(slices, rows, numbers)
    for bit, bitmap in enumerate(slices):
        assert bitmap == BitMap(rows[(numbers >> np.uint64(bit) & np.uint64(1)) == 1])
