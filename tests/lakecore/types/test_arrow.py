import pyarrow as pa
import pytest

from lakecore.errors import InvalidInputError
from lakecore.types.arrow import FIELD_ID_KEY, arrow_field, arrow_schema, arrow_type, row_type_from_arrow
from lakecore.types.datatypes import DataField, RowType, parse_type

ATOMS = {
    "CHAR(3)": pa.string(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "BINARY(4)": pa.binary(),
    "BYTES": pa.binary(),
    "DECIMAL(38, 10)": pa.decimal128(38, 10),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIME(3)": pa.time32("ms"),
    "TIMESTAMP(0)": pa.timestamp("ms"),
    "TIMESTAMP(6)": pa.timestamp("us"),
    "TIMESTAMP(9)": pa.timestamp("ns"),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": pa.timestamp("ms", "UTC"),
}


@pytest.mark.parametrize("text", ATOMS)
def test_atomic_types(text: str) -> None:
    assert arrow_type(parse_type(text)) == ATOMS[text]


def _id(field: pa.Field) -> int:
    return int(field.metadata[FIELD_ID_KEY])


def test_ids_inside_arrays_and_maps_follow_the_rule_of_java() -> None:
    # spec: metadata.md 9, read from Java's files: array field 22, map field 23
    array = arrow_field(
        DataField(22, "a", parse_type({"type": "ARRAY", "element": {"type": "ARRAY", "element": "INT"}}))
    )
    assert _id(array) == 22
    assert _id(array.type.value_field) == 536893440
    assert _id(array.type.value_field.type.value_field) == 536893441
    value = {"type": "ROW", "fields": [{"id": 24, "name": "x", "type": "INT"}]}
    entry = arrow_field(
        DataField(23, "m", parse_type({"type": "MAP", "key": "STRING NOT NULL", "value": value}))
    )
    assert (_id(entry.type.key_field), _id(entry.type.item_field)) == (536847358, 536894464)
    assert _id(entry.type.item_field.type.field(0)) == 24
    variant = arrow_field(DataField(5, "v", parse_type("VARIANT")))
    assert [_id(variant.type.field(i)) for i in range(2)] == [0, 1]


def test_ids_wrap_around_at_32_bits() -> None:
    field = arrow_field(DataField(2_000_000, "a", parse_type({"type": "ARRAY", "element": "INT"})))
    assert _id(field.type.value_field) == (536870911 + 2_000_000 * 1024 + 1 + 2**31) % 2**32 - 2**31


def test_row_types_come_back() -> None:
    kinds = [*ATOMS, {"type": "ARRAY NOT NULL", "element": "INT NOT NULL"}, "BIGINT NOT NULL"]
    kinds.append({"type": "VECTOR", "element": "FLOAT", "length": 3})
    kinds.append({"type": "ROW", "fields": [{"id": 77, "name": "z", "type": "DATE"}]})
    row_type = RowType(tuple(DataField(i, f"c{i}", parse_type(kind)) for i, kind in enumerate(kinds)))
    back = row_type_from_arrow(arrow_schema(row_type))
    assert arrow_schema(back) == arrow_schema(row_type)
    assert [field.type.nullable for field in back] == [field.type.nullable for field in row_type]
    assert back.fields[-1] == row_type.fields[-1]


def test_foreign_types() -> None:
    schema = pa.schema([("a", pa.dictionary(pa.int32(), pa.large_string())), ("b", pa.uint32())])
    assert [str(field.type) for field in row_type_from_arrow(schema)] == ["STRING", "BIGINT"]
    with pytest.raises(InvalidInputError, match="column d: Arrow type duration"):
        row_type_from_arrow(pa.schema([("d", pa.duration("s"))]))
