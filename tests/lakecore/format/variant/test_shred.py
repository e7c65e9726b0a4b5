"""Variants taken apart come back byte for byte, whatever they are; the types chosen for them; the options."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.errors import CorruptDataError, InvalidOptionError
from lakecore.format.canonical import canonical
from lakecore.format.data_writer import WriterOptions, open_shredding_writer
from lakecore.format.parquet.not_null import fill_null_rows
from lakecore.format.parquet.reader import ParquetReader
from lakecore.format.shredders import shredder_for
from lakecore.format.variant.inference import Evidence, Limits, infer_types
from lakecore.format.variant.shred import shred_values, shredded_type
from lakecore.fs.local import LocalFileIO
from lakecore.row.variant import date_bytes, float_bytes, parse_variant
from lakecore.types.arrow import arrow_field, arrow_schema, arrow_type
from lakecore.types.datatypes import ArrayType, DataField, DataType, RowType, parse_type, type_to_json

VARIANT = parse_type("VARIANT")
NAMES = ["a", "b", "c", "é", "𝄞z", "a1", "long name " * 8, ""]
TYPES = ["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BOOLEAN", "DECIMAL(9, 2)",
    "DECIMAL(18, 0)", "DECIMAL(38, 10)", "DECIMAL(20, 0)", "CHAR(3)", "VARIANT"]  # fmt: skip
SCALARS = ["null", "true", "false", "0", "-1", "127", "128", "-129", "32767", "-32769", str(2**31), str(-(2**63)),
    str(10**25), "1.5e0", "-0e0", '""', f'"{"x" * 63}"', f'"{"x" * 64}"', f'"{"é" * 70}"', "1.25", "-1234567.89",
    "12345678.90", "0.00", "9" * 38, "-" + "9" * 38, "123456789012345678.0123456789", "-0.0000000001", "0.000000000001"]  # fmt: skip


def some_type(dice: random.Random, depth: int = 0) -> DataType:
    roll = dice.random()
    if depth < 3 and roll < 0.45:
        names = dice.sample(NAMES, dice.randrange(1, 5))
        return RowType(tuple(DataField(i, n, some_type(dice, depth + 1)) for i, n in enumerate(names)))
    if depth < 3 and roll < 0.6:
        return ArrayType(some_type(dice, depth + 1))
    return parse_type(dice.choice(TYPES))


def some_text(dice: random.Random, kind: DataType | None, depth: int = 0) -> str:
    """JSON that mostly fits a type; None: any."""
    if kind is None or dice.random() < 0.15:
        kind = RowType(()) if dice.random() < 0.3 else ArrayType(VARIANT) if dice.random() < 0.2 else VARIANT
    if isinstance(kind, RowType) and depth < 5:
        parts = {f.name: some_text(dice, f.type, depth + 1) for f in kind if dice.random() < 0.85}
        more = dice.sample(NAMES, dice.randrange(3)) if dice.random() < 0.4 else []
        parts = {name: some_text(dice, None, depth + 1) for name in more} | parts
        return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in parts.items()) + "}"
    if isinstance(kind, ArrayType) and depth < 5:
        many = 300 if dice.random() < 0.02 else dice.randrange(4)
        return "[" + ",".join(some_text(dice, kind.element, depth + 1) for _ in range(many)) + "]"
    return dice.choice(SCALARS)


def damaged(dice: random.Random, row: dict[str, bytes]) -> dict[str, bytes]:
    value, metadata = bytearray(row["value"]), bytearray(row["metadata"])
    for _ in range(dice.randrange(1, 4)):
        value[dice.randrange(len(value))] = dice.randrange(256)
    if dice.random() < 0.3:
        metadata[dice.randrange(len(metadata))] = dice.randrange(256)
    return {"value": bytes(value[: dice.randrange(len(value) + 1)]), "metadata": bytes(metadata)}


def test_values_come_back_byte_for_byte(tmp_path: Path) -> None:
    """Also damaged ones. Most values are taken apart."""
    apart = whole = 0
    file_io = LocalFileIO()
    for seed in range(40):
        dice = random.Random(seed)
        kind = some_type(dice)
        rows: list[Any] = []
        for _ in range(30):
            value, metadata = parse_variant(some_text(dice, kind))
            row = {"value": value, "metadata": metadata}
            rows.append(damaged(dice, row) if seed % 2 and dice.random() < 0.2 else row)
        special = [
            b"\x38\0\0\xc0\x7f",
            float_bytes(1.5),
            date_bytes(3),
            b"",
            b"\x50" * 17,
            b"\xe3\1\0\3\x10\x7f\x1c",
            b"\x82\0\0",
        ]
        rows += [None, *({"value": value, "metadata": b"\1\0\0"} for value in special)]
        row_type = RowType((DataField(0, "v", VARIANT),))
        given = RowType((DataField(0, "v", kind),))
        raw = {"variant.shreddingSchema": json.dumps(type_to_json(given))}
        shredder = shredder_for(row_type, raw, "parquet", "zstd")
        assert shredder is not None
        path = str(tmp_path / f"{seed}.parquet")
        writer = open_shredding_writer(file_io, path, "parquet", shredder, WriterOptions())
        column = pa.array([None, *rows], arrow_type(VARIANT))[1:]
        writer.write(pa.RecordBatch.from_arrays([column], schema=arrow_schema(row_type)))
        writer.close()
        stored = pq.read_table(path, arrow_extensions_enabled=False).column(0).combine_chunks()
        if stored.type.get_field_index("typed_value") >= 0:
            apart += stored.field("typed_value").null_count
            whole += len(stored)
        found = [batch.column(0) for batch in ParquetReader(file_io, path).batches()]
        back = [row for array in found for row in canonical(array, VARIANT, path).to_pylist()]
        assert back == rows, seed
    assert whole - apart > 0.4 * whole


def test_objects_with_many_keys_or_large_values_come_back_byte_for_byte(tmp_path: Path) -> None:
    """Their ids and offsets take two to four bytes each."""
    many = {f"k{number}": number for number in range(300)}
    texts = [
        json.dumps(value)
        for value in (many, {"a": "x" * 70_000, "b": 1}, {"a": "y" * 300, "b": 2}, many | {"z": "w" * 70_000})
    ]
    rows = [dict(zip(("value", "metadata"), parse_variant(text), strict=True)) for text in texts]
    row_type = RowType((DataField(0, "v", VARIANT),))
    fields = RowType(tuple(DataField(at, name, parse_type("INT")) for at, name in enumerate(("b", "k7"))))
    given = RowType((DataField(0, "v", fields),))
    shredder = shredder_for(
        row_type, {"variant.shreddingSchema": json.dumps(type_to_json(given))}, "parquet", "zstd"
    )
    assert shredder is not None
    path, file_io = str(tmp_path / "wide.parquet"), LocalFileIO()
    writer = open_shredding_writer(file_io, path, "parquet", shredder, WriterOptions())
    column = pa.array(rows, arrow_type(VARIANT))
    writer.write(pa.RecordBatch.from_arrays([column], schema=arrow_schema(row_type)))
    writer.close()
    batches = ParquetReader(file_io, path).batches()
    back = [row for batch in batches for row in canonical(batch.column(0), VARIANT, path).to_pylist()]
    assert back == rows


INFERRED: list[tuple[list[str], str]] = [
    (['{"b":1,"a":"x"}', '{"a":"y","c":2.5}'], 'ROW<a STRING, b BIGINT, c DECIMAL(18, 1)>'), (["1", "123456789012345678901234567890.5"], "DECIMAL(38, 1)"),
    (["1", '"x"'], "VARIANT"), (["null", "null"], "VARIANT"), (["[1,null]", "[2.25]"], "ARRAY<DECIMAL(18, 2)>"), ([], "VARIANT"),
    (["[[1],{}]"], "ARRAY<VARIANT>"), (["1e3", "2e0"], "DOUBLE"), (["9223372036854775807", "5"], "BIGINT"), (["true", "null"], "BOOLEAN"),
    (['{"a":{"b":{"c":1}}}'], "ROW<a ROW<b VARIANT>>"), (["{}", "{}"], "VARIANT"), (['{"rare":1}', *['{"a":1}'] * 19], "ROW<a BIGINT>"),
    (['{"a":1,"b":2,"c":3,"d":4}'], "ROW<a BIGINT, b BIGINT, c BIGINT, d VARIANT>"),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "wanted"), INFERRED)
def test_types_are_chosen_by_what_values_look_like(texts: list[str], wanted: str) -> None:
    limits = Limits(width=8, depth=2, share=0.1)
    kinds = infer_types([Evidence.of(map(parse_variant, texts), limits)], limits)
    assert [text_of(kind) for kind in kinds] == [wanted]


def text_of(kind: DataType) -> str:
    if isinstance(kind, RowType):
        return "ROW<" + ", ".join(f"{f.name} {text_of(f.type)}" for f in kind) + ">"
    return f"ARRAY<{text_of(kind.element)}>" if isinstance(kind, ArrayType) else str(kind)


def test_what_is_no_variant_is_not_taken_apart() -> None:
    limits = Limits(width=300, depth=50, share=0.1)
    rows = [parse_variant('{"a":1}'), (b"\x02\x09", b"\1\0\0"), (b"", b"")]
    assert infer_types([Evidence.of(rows, limits)], limits) == [VARIANT]
    field = arrow_field(DataField(0, "v", shredded_type(VARIANT)))
    column = pa.array([{"value": value, "metadata": keys} for value, keys in rows], arrow_type(VARIANT))
    found = shred_values(column, VARIANT, field.type).to_pylist()
    assert [(row["value"], row["metadata"]) for row in found] == rows


@pytest.mark.parametrize(
    "names", [("value", "typed_value"), ("value",), ("metadata", "typed_value", "typed_value")]
)
def test_groups_that_lack_a_part_are_damage(names: tuple[str, ...]) -> None:
    array = pa.StructArray.from_arrays([pa.array([b"\0"])] * len(names), names=names)
    with pytest.raises(CorruptDataError):
        canonical(array, VARIANT, "f.parquet")


OPTIONS = [
    ({"variant.shreddingSchema": "{"}, "variant.shreddingSchema"), ({"parquet.variant.shreddingSchema": '"INT"'}, "must be a ROW in JSON"),
    ({"variant.shreddingSchema": '{"type":"ROW","fields":[{"id":0,"name":"v","type":"DATE"}]}'}, "v: values cannot be stored as DATE"),
    ({"variant.inferShreddingSchema": "true", "variant.shredding.maxInferBufferRow": "0"}, "maxInferBufferRow"),
    ({"variant.inferShreddingSchema": "true", "variant.shredding.minFieldCardinalityRatio": "2"}, "between 0 and 1"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "told"), OPTIONS)
def test_options_that_make_no_sense(raw: dict[str, str], told: str) -> None:
    row_type = RowType((DataField(0, "v", VARIANT),))
    with pytest.raises(InvalidOptionError, match=told):
        shredder_for(row_type, raw, "parquet", "zstd")
    assert shredder_for(row_type, raw, "orc", "zstd") is None


def test_what_lies_under_null_rows_is_no_null() -> None:
    """A null that somebody sees stays."""
    inner = pa.struct([pa.field("x", pa.int32(), False), pa.field("l", pa.list_(pa.int8()), False)])
    kind = pa.struct([pa.field("r", inner, False), pa.field("m", pa.map_(pa.string(), inner))])
    one = {"x": 1, "l": [1]}
    whole = pa.array([{"r": one, "m": [("a", one)]}, {"r": one, "m": [("b", None)]}], kind)
    taken = whole.take(pa.array([1, None, 0]))
    assert fill_null_rows(taken).equals(taken)
    assert [fill_null_rows(taken).field(0).field(i).null_count for i in range(2)] == [0, 0]
    seen = pa.array([{"x": None, "l": []}], inner)
    assert fill_null_rows(seen).field(0).null_count == 1
