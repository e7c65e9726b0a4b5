"""Files of older schemas give the digests of the same values in the table's types, or are left out by name."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.errors import CorruptDataError
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.types.datatypes import DataField, parse_type
from lakecore.verify.digest.columns import read_covered
from lakecore.verify.digest.digest import Tally
from lakecore.verify.digest.evolution import keeps_values
from lakecore.verify.digest.rows import tally_rows
from lakecore.verify.digest.shape import ProofMode, shape_of

Types = dict[str, tuple[int, object]]


def schema(fields: Types, number: int = 0, key: tuple[str, ...] = (), **options: str) -> TableSchema:
    made = tuple(DataField(i, name, parse_type(kind)) for name, (i, kind) in fields.items())  # type: ignore[arg-type]
    bucket = {"bucket": "1" if key else "-1"}
    return TableSchema(
        id=number, fields=made, highest_field_id=99, primary_keys=key, options={**bucket, **options}
    )


def digest(
    stored: pa.Table, before: TableSchema, now: TableSchema, mode: ProofMode = ProofMode.FULL
) -> Tally:
    file_io = MemoryFileIO("evolution")
    file_io.clear()
    with file_io.open_output("memory://evolution/f.parquet") as out:
        pq.write_table(stored, out)
    shape = shape_of(now, TableOptions.from_schema(now), mode, [before])
    total = Tally(0, 0)
    for columns in read_covered(file_io, "memory://evolution/f.parquet", shape, before):
        total += tally_rows(columns, shape, total.rows)
    return total


@pytest.mark.parametrize(
    ("old", "new", "keeps"),
    [
        ("INT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("TINYINT", "DECIMAL(5, 2)", True),
        ("INT", "DECIMAL(5, 2)", False),
        ("DECIMAL(10, 2)", "DECIMAL(12, 3)", True),
        ("DECIMAL(10, 2)", "DECIMAL(10, 3)", False),
        ("DECIMAL(10, 0)", "BIGINT", False),
        ("FLOAT", "DOUBLE", True),
        ("DOUBLE", "FLOAT", False),
        ("INT", "DOUBLE", False),
        ("CHAR(3)", "VARCHAR(3)", True),
        ("VARCHAR(5)", "STRING", True),
        ("STRING", "VARCHAR(5)", False),
        ("VARCHAR(3)", "CHAR(5)", False),
        ("BINARY(3)", "BYTES", True),
        ("INT", "STRING", False),
        ("DATE", "TIMESTAMP(3)", False),
        ("TIMESTAMP(3)", "TIMESTAMP(9)", True),
        ("TIMESTAMP(9)", "TIMESTAMP(3)", False),
        ("TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", False),
        ("INT NOT NULL", "INT", True),
        ("INT", {"type": "ARRAY", "element": "INT"}, False),
        ({"type": "ARRAY", "element": "INT"}, {"type": "ARRAY", "element": "BIGINT"}, True),
        (
            {"type": "MAP", "key": "INT", "value": "STRING"},
            {"type": "MAP", "key": "BIGINT", "value": "STRING"},
            True,
        ),
        ({"type": "MULTISET", "element": "INT"}, {"type": "MULTISET", "element": "STRING"}, False),
    ],
)
def test_which_changes_keep_values(old: object, new: object, keeps: bool) -> None:
    assert keeps_values(parse_type(old), parse_type(new)) == keeps  # type: ignore[arg-type]


def row(*fields: tuple[int, str, str]) -> dict[str, object]:
    return {"type": "ROW", "fields": [{"id": i, "name": name, "type": kind} for i, name, kind in fields]}


def test_added_dropped_renamed_reordered_and_widened_columns() -> None:
    before = schema(
        {
            "a": (0, "INT"),
            "b": (1, "STRING"),
            "gone": (2, "INT"),
            "d": (3, "DECIMAL(10, 2)"),
            "f": (4, "FLOAT"),
        }
    )
    now = schema(
        {
            "new": (5, "STRING"),
            "b2": (1, "STRING"),
            "a": (0, "BIGINT"),
            "d": (3, "DECIMAL(20, 4)"),
            "f": (4, "DOUBLE"),
            "gone": (6, "INT"),
        },
        1,
    )
    old = pa.table({
        "a": pa.array([1, None], pa.int32()), "b": ["x", "y"], "gone": pa.array([7, 8], pa.int32()),
        "d": pa.array([Decimal("1.25"), None], pa.decimal128(10, 2)), "f": pa.array([0.1, 2.5], pa.float32()),
    })  # fmt: skip
    rewritten = pa.table({
        "new": pa.nulls(2, pa.string()), "b2": ["x", "y"], "a": pa.array([1, None], pa.int64()),
        "d": pa.array([Decimal("1.2500"), None], pa.decimal128(20, 4)),
        "f": old.column("f").cast(pa.float64()), "gone": pa.nulls(2, pa.int32()),
    })  # fmt: skip
    assert digest(old, before, now) == digest(rewritten, now, now)
    wrong = rewritten.set_column(5, "gone", pa.array([7, 8], pa.int32()))
    assert digest(old, before, now) != digest(wrong, now, now)


def test_nested_fields_are_matched_by_id() -> None:
    before = schema(
        {"r": (0, row((1, "x", "INT"), (2, "y", "STRING"))), "l": (3, {"type": "ARRAY", "element": "INT"})}
    )
    now = schema(
        {
            "r": (0, row((4, "z", "INT"), (2, "w", "STRING"), (1, "x", "BIGINT"))),
            "l": (3, {"type": "ARRAY", "element": "BIGINT"}),
        },
        1,
    )
    old = pa.table({
        "r": pa.array([{"x": 1, "y": "a"}, None], pa.struct({"x": pa.int32(), "y": pa.string()})),
        "l": pa.array([[1, None], None], pa.list_(pa.int32())),
    })  # fmt: skip
    new = pa.table({
        "r": pa.array([{"z": None, "w": "a", "x": 1}, None], pa.struct({"z": pa.int32(), "w": pa.string(), "x": pa.int64()})),
        "l": pa.array([[1, None], None], pa.list_(pa.int64())),
    })  # fmt: skip
    assert digest(old, before, now) == digest(new, now, now)


def test_maps_and_multisets_with_wider_parts() -> None:
    before = schema(
        {
            "m": (0, {"type": "MAP", "key": "INT", "value": "INT"}),
            "s": (1, {"type": "MULTISET", "element": "INT"}),
        }
    )
    now = schema(
        {
            "m": (0, {"type": "MAP", "key": "BIGINT", "value": "DECIMAL(12, 2)"}),
            "s": (1, {"type": "MULTISET", "element": "BIGINT"}),
        },
        1,
    )
    old = pa.table({
        "m": pa.array([[(1, 2)], [], None], pa.map_(pa.int32(), pa.int32())),
        "s": pa.array([[(1, 2)], None, []], pa.map_(pa.int32(), pa.int32())),
    })  # fmt: skip
    new = pa.table({
        "m": pa.array([[(1, Decimal("2.00"))], [], None], pa.map_(pa.int64(), pa.decimal128(12, 2))),
        "s": pa.array([[(1, 2)], None, []], pa.map_(pa.int64(), pa.int32())),
    })  # fmt: skip
    assert digest(old, before, now) == digest(new, now, now)


def test_a_column_whose_values_may_change_is_left_out_and_named() -> None:
    before, now = schema({"a": (0, "INT"), "b": (1, "INT")}), schema({"a": (0, "STRING"), "b": (1, "INT")}, 1)
    shape = shape_of(now, TableOptions.from_schema(now), ProofMode.FULL, [before, now])
    assert [field.name for field in shape.values] == ["b"]
    assert shape.uncompared == ("a",)
    old = pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())})
    assert digest(old, before, now).rows == 1


KEYED: Types = {"v": (0, "STRING"), "k": (1, "BIGINT NOT NULL"), "s": (2, "INT")}


def stored_keys(**columns: object) -> pa.Table:
    system = {"_SEQUENCE_NUMBER": pa.array([4, 5]), "_VALUE_KIND": pa.array([0, 3], pa.int8())}
    values = {"v": ["a", "b"], "k": [1, 2], "s": pa.array([7, None], pa.int32())}
    return pa.table({**columns, **system, **values})


@pytest.mark.parametrize("mode", list(ProofMode))
def test_thin_files_give_the_digest_of_thick_ones(mode: ProofMode) -> None:
    table = schema(KEYED, key=("k",), **{"sequence.field": "s"})
    assert digest(stored_keys(_KEY_k=[1, 2]), table, table, mode) == digest(stored_keys(), table, table, mode)


def test_key_and_value_copies_of_a_key_are_told_apart_in_full_mode() -> None:
    table = schema(KEYED, key=("k",))
    thick, wrong = stored_keys(_KEY_k=[1, 2]), stored_keys(_KEY_k=[1, 3])
    assert digest(thick, table, table) != digest(wrong, table, table)


def test_a_renamed_key_is_found_under_its_old_name() -> None:
    before = schema(KEYED, key=("k",))
    now = schema({"v": (0, "STRING"), "id": (1, "BIGINT NOT NULL"), "s": (2, "INT")}, 1, key=("id",))
    old = stored_keys(_KEY_k=[1, 2])
    new = old.rename_columns(["_KEY_id", "_SEQUENCE_NUMBER", "_VALUE_KIND", "v", "id", "s"])
    for mode in ProofMode:
        assert digest(old, before, now, mode) == digest(new, now, now, mode)


def test_missing_columns() -> None:
    table = schema(KEYED, key=("k",))
    with pytest.raises(CorruptDataError, match="_SEQUENCE_NUMBER is missing"):
        digest(stored_keys().drop_columns(["_SEQUENCE_NUMBER"]), table, table)
    with pytest.raises(CorruptDataError, match="column k is missing"):
        digest(stored_keys().drop_columns(["k"]), table, table)
    without = stored_keys(_KEY_k=[1, 2])
    assert digest(without.drop_columns(["v"]), table, table) == digest(
        without.set_column(3, "v", pa.nulls(2, pa.string())), table, table
    )


def test_which_columns_the_proof_of_keys_covers() -> None:
    wide = schema({"s": (0, "STRING"), **{f"c{i}": (i, "INT") for i in range(1, 20)}})
    keyless = schema({"s": (0, "STRING")})
    nested = schema({"l": (0, {"type": "ARRAY", "element": "INT"}), "s": (1, "STRING"), "n": (2, "INT")})
    names = [
        [f.name for f in shape_of(t, TableOptions.from_schema(t), ProofMode.KEYS).values]
        for t in (wide, keyless, nested)
    ]
    assert names == [["c1", "c2", "c3"], ["s"], ["n"]]
