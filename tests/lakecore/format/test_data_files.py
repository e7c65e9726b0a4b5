"""Data files of every format and codec: what goes in comes out, and the bytes are what other readers expect."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakecore.errors import CorruptDataError, NotFoundError, UnsupportedError
from lakecore.format.canonical import canonical
from lakecore.format.data_reader import DataFileReader, file_format, open_reader
from lakecore.format.data_writer import WriterOptions, WrittenFile, open_writer
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.schema import TableSchema
from lakecore.row.values import batch_rows, rows_batch
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import ArrayType, DataField, RowType, parse_type

COLUMNS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "b": ("BOOLEAN", (True, False, None)),
    "i8": ("TINYINT", (-128, 127, None)),
    "i16": ("SMALLINT", (-32768, 32767, None)),
    "i32": ("INT NOT NULL", (-(2**31), 2**31 - 1, 0)),
    "i64": ("BIGINT", (-(2**63), 2**63 - 1, None)),
    "f": ("FLOAT", (1.5, float("inf"), None)),
    "d": ("DOUBLE", (-0.0, 1.7976931348623157e308, None)),
    "dec9": ("DECIMAL(9, 2)", (Decimal("-1234567.89"), Decimal("0.01"), None)),
    "dec18": ("DECIMAL(18, 0)", (Decimal(10**18 - 1), Decimal(-1), None)),
    "dec38": ("DECIMAL(38, 10)", (Decimal("-1234567890123456789012345678.0123456789"), Decimal("0E-10"), None)),
    "c": ("CHAR(3)", ("a  ", "éé😀", None)),
    "s": ("STRING", ("", "a\0b", None)),
    "y": ("BYTES", (b"", b"\xff\0", None)),
    "date": ("DATE", (-719162, 2932896, None)),
    "time": ("TIME(3)", (0, 86_399_999, None)),
    "t3": ("TIMESTAMP(3)", (-1_000_000, 1_700_000_000_123_000_000, None)),
    "t6": ("TIMESTAMP(6)", (-1_000_000, 1_700_000_000_123_456_000, None)),
    "z6": ("TIMESTAMP(6) WITH LOCAL TIME ZONE", (-1_000_000, 1_700_000_000_123_456_000, None)),
    "arr": ({"type": "ARRAY", "element": "DECIMAL(20, 3)"}, ([Decimal("1.250"), None], [], None)),
    "map": ({"type": "MAP", "key": "STRING", "value": "TIME(0)"}, ([("k", 1000), ("", None)], [], None)),
    "imap": (
        {"type": "MAP", "key": "INT NOT NULL", "value": {"type": "ARRAY", "element": "TIMESTAMP(3)"}},
        ([(1, [0, None])], [], None),
    ),
    "bag": ({"type": "MULTISET", "element": "STRING"}, ([("x", 2)], [], None)),
    "row": (
        {"type": "ROW", "fields": [{"id": 90, "name": "p", "type": "BIGINT"}, {"id": 91, "name": "q", "type": "DATE"}]},
        ((1, None), (None, 3), None),
    ),
}  # fmt: skip
NANOS = {
    "t9": ("TIMESTAMP(9)", (-1_000_000, 9_223_372_036_854_775_807, None)),
    "z9": ("TIMESTAMP(9) WITH LOCAL TIME ZONE", (-9_223_372_036_854_000_000, 5, None)),
    "arr9": ({"type": "ARRAY", "element": "TIMESTAMP(9)"}, ([1, None, -1_000_000], [], None)),
}
NOT_IN_ORC = {
    "e6": ("TIMESTAMP(6)", (-1_000, -1_000_001_000, None)),
    "ez6": ("TIMESTAMP(6) WITH LOCAL TIME ZONE", (-1_000, None, None)),
}
NANOS_NOT_IN_ORC = {"e9": ("TIMESTAMP(9)", (-1, -9_223_372_036_854_775_807, None))}
STRICT = {
    "strict": (
        {"type": "ROW", "fields": [{"id": 92, "name": "p", "type": "STRING NOT NULL"},
            {"id": 93, "name": "q", "type": {"type": "ARRAY NOT NULL", "element": "STRING"}}]},
        (("x", ["", None]), None, ("", [])),
    ),
}  # fmt: skip
"""Parts that must not be null, in rows that are: as pyarrow's readers of the other formats give them."""
WITHOUT_BLANKS = {"c": ("CHAR(3)", ("a", "éé😀", None))}
"""What ORC files keep of a CHAR."""
CODECS = [("parquet", c) for c in ("zstd", "snappy", "gzip", "lz4", "lz4_raw", "brotli", "none")]
CODECS += [("orc", c) for c in ("zstd", "snappy", "zlib", "lz4", "none")]
CODECS += [("avro", c) for c in ("zstd", "snappy", "deflate", "null")] + [("row", "zstd")]


def row_type(columns: dict[str, tuple[Any, Any]]) -> RowType:
    return RowType(
        tuple(DataField(i, name, parse_type(kind)) for i, (name, (kind, _)) in enumerate(columns.items()))
    )


def rows_of(columns: dict[str, tuple[Any, tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    return list(zip(*(values for _, values in columns.values()), strict=True))


def write(
    fs: MemoryFileIO,
    path: str,
    kind: RowType,
    rows: list[tuple[Any, ...]],
    options: WriterOptions | None = None,
) -> WrittenFile:
    schema = arrow_schema(kind)
    writer = open_writer(fs, path, file_format(path), schema, options or WriterOptions())
    if rows:
        half = max(len(rows) // 2, 1)
        for part in (rows[:half], rows[half:]):
            writer.write(rows_batch(part, kind, schema))
    return writer.close()


def read(fs: MemoryFileIO, path: str, kind: RowType, **arguments: Any) -> list[tuple[Any, ...]]:
    reader = opened(fs, path, kind)
    rows = []
    for batch in reader.batches(**arguments):
        names = [field.name for field in kind]
        arrays = [canonical(batch.column(field.name), field.type, path) for field in kind]
        rows += batch_rows(pa.RecordBatch.from_arrays(arrays, names=names), kind)
    reader.close()
    return rows


def opened(fs: MemoryFileIO, path: str, kind: RowType) -> DataFileReader:
    return open_reader(
        fs, path, schema=TableSchema(id=0, fields=kind.fields, highest_field_id=99, options={})
    )


@pytest.fixture
def fs() -> MemoryFileIO:
    file_io = MemoryFileIO("data-files")
    file_io.clear()
    return file_io


@pytest.mark.parametrize(("kind", "codec"), CODECS)
def test_every_type_in_every_format_and_codec(fs: MemoryFileIO, kind: str, codec: str) -> None:
    whole = NOT_IN_ORC | NANOS | NANOS_NOT_IN_ORC
    more = {"avro": NOT_IN_ORC, "orc": NANOS, "parquet": whole, "row": whole | STRICT}
    columns = COLUMNS | more[kind]
    types, rows = row_type(columns), rows_of(columns)
    path = f"memory://t/data-1.{kind}"
    done = write(fs, path, types, rows, WriterOptions(compression=codec))
    wanted = rows_of(columns | WITHOUT_BLANKS) if kind == "orc" else rows
    assert repr(read(fs, path, types)) == repr(wanted)
    assert (done.rows, done.size) == (3, fs.stat(path).size)  # type: ignore[union-attr]
    reader = opened(fs, path, types)
    assert (reader.num_rows, reader.row_groups) == (3, 1)
    assert 0 < reader.row_bytes(["i32"]) <= reader.row_bytes()


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro", "row"])
def test_slices_of_batches_are_written_as_they_are(fs: MemoryFileIO, kind: str) -> None:
    """pyarrow's ORC writer takes the nulls of a sliced row type from the beginning of its buffers."""
    pair = {
        "type": "ROW",
        "fields": [{"id": 90, "name": "p", "type": "INT"}, {"id": 91, "name": "q", "type": "STRING"}],
    }
    columns = {
        "row": (pair, ((1, "x"), None, (None, "y"), None, (3, None), (4, "z"))),
        "rows": ({"type": "ARRAY", "element": pair}, ([(1, "x")], None, [None, (2, "y")], [], [(3, None)], None)),
        "map": ({"type": "MAP", "key": "INT", "value": pair}, ([(1, None)], None, [(2, (1, "a"))], [], None, [(3, (None, "b"))])),
        "inner": (
            {"type": "ROW", "fields": [{"id": 92, "name": "i", "type": pair}]},
            (((1, "x"),), None, (None,), ((None, "y"),), ((2, None),), None),
        ),
    }  # fmt: skip
    rows, schema = rows_of(columns), row_type(columns)
    whole = rows_batch(rows, schema, arrow_schema(schema))
    path = f"memory://t/slices.{kind}"
    writer = open_writer(fs, path, kind, arrow_schema(schema), WriterOptions())
    for start, size in ((3, 2), (1, 1), (0, 3), (5, 1)):
        writer.write(whole.slice(start, size))
    writer.close()
    assert read(fs, path, schema) == [*rows[3:5], rows[1], *rows[:3], rows[5]]


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro", "row"])
def test_projection_order_and_batches(fs: MemoryFileIO, kind: str) -> None:
    types = row_type({name: COLUMNS[name] for name in ("i32", "s", "row", "map")})
    rows = rows_of({name: COLUMNS[name] for name in ("i32", "s", "row", "map")})
    path = f"memory://t/x.{kind}"
    write(fs, path, types, rows)
    reader = opened(fs, path, types)
    batches = list(reader.batches(["map", "s"], batch_size=2))
    assert [batch.schema.names for batch in batches] == [["map", "s"]] * len(batches)
    assert [value for batch in batches for value in batch.column("s").to_pylist()] == ["", "a\0b", None]
    assert max(batch.num_rows for batch in batches) <= 2
    assert sum(batch.num_rows for batch in reader.batches(["s"], row_groups=[0])) == 3
    assert list(reader.batches(["s"], row_groups=[])) == []


@pytest.mark.parametrize("kind", ["parquet", "orc"])  # avro has no such names
def test_a_column_name_with_a_dot(fs: MemoryFileIO, kind: str) -> None:
    inner = {"type": "ROW", "fields": [{"id": 9, "name": "b", "type": "INT"}]}
    types = row_type({"a": (inner, ()), "a.b": ("STRING", ())})
    path = f"memory://t/x.{kind}"
    write(fs, path, types, [((1,), "x")])
    assert [b.column("a.b").to_pylist() for b in open_reader(fs, path).batches(["a.b"])] == [["x"]]
    assert [b.schema.names for b in open_reader(fs, path).batches(["a"])] == [["a"]]


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro", "row"])
def test_an_empty_file(fs: MemoryFileIO, kind: str) -> None:
    types = row_type(COLUMNS)
    path = f"memory://t/x.{kind}"
    done = write(fs, path, types, [])
    assert done.rows == 0
    assert read(fs, path, types) == []


def test_parquet_stores_what_other_readers_expect(fs: MemoryFileIO) -> None:
    columns = COLUMNS | NANOS
    write(fs, "memory://t/x.parquet", row_type(columns), rows_of(columns))
    file = pq.ParquetFile(pa.BufferReader(fs.read("memory://t/x.parquet")))
    leaves = {file.schema.column(i).path: file.schema.column(i) for i in range(len(file.schema))}
    assert leaves["t9"].physical_type == leaves["arr9.list.element"].physical_type == "INT96"
    assert (leaves["dec9"].physical_type, leaves["dec18"].physical_type) == ("INT32", "INT64")
    assert leaves["dec38"].physical_type == "FIXED_LEN_BYTE_ARRAY"
    assert "isAdjustedToUTC=true" in str(leaves["time"].logical_type)
    assert "isAdjustedToUTC=false" in str(leaves["t6"].logical_type)
    assert "isAdjustedToUTC=true" in str(leaves["z6"].logical_type)
    ids = {field.name: field.metadata[b"PARQUET:field_id"] for field in file.schema_arrow}
    assert ids == {name: str(i).encode() for i, name in enumerate(columns)}
    element = file.schema_arrow.field("arr").type.value_field
    assert element.metadata[b"PARQUET:field_id"] == str(536870911 + 18 * 1024 + 1).encode()
    chunk = file.metadata.row_group(0).column(0)
    assert chunk.has_column_index
    assert chunk.has_offset_index
    assert {file.metadata.row_group(0).column(i).compression for i in range(len(leaves))} == {"ZSTD"}
    assert all(
        "BYTE_STREAM_SPLIT" not in file.metadata.row_group(0).column(i).encodings for i in range(len(leaves))
    )


def test_orc_carries_ids_and_time_as_int(fs: MemoryFileIO) -> None:
    write(fs, "memory://t/x.orc", row_type(COLUMNS), rows_of(COLUMNS))
    schema = orc.ORCFile(pa.BufferReader(fs.read("memory://t/x.orc"))).schema
    assert schema.field("time").type == pa.int32()
    assert schema.field("z6").type == pa.timestamp("ns", "UTC")
    assert schema.field("i64").metadata == {b"paimon.id": b"4"}


def test_avro_refuses_nanoseconds_and_leaves_nothing(fs: MemoryFileIO) -> None:
    with pytest.raises(UnsupportedError, match=r"timestamp\[ns\].*parquet or orc"):
        write(fs, "memory://t/x.avro", row_type(NANOS), rows_of(NANOS))
    assert fs.stat("memory://t/x.avro") is None


EARLY = [
    (1, "us", "", True),
    (-1, "us", "", True),
    (-1, "us", "UTC", False),
    (-999_000, "us", "UTC", True),
    (-999_001, "us", "UTC", True),
    (-998_999, "us", "UTC", False),
    (-1_000_000, "us", "", True),
    (-1_000_001, "us", "UTC", True),
    (-62_135_596_799_999_999, "us", "", True),
    (-1_000_001, "ns", "", True),
    (-1_000_001, "ns", "UTC", False),
    (-1_000_000, "ns", "UTC", True),
    (-999_999_999, "ns", "UTC", True),
    (-9_223_372_036_854_775_807, "ns", "", True),
]


@pytest.mark.parametrize("shape", ["plain", "list", "map", "struct"])
@pytest.mark.parametrize(("ticks", "unit", "zone", "taken"), EARLY)
def test_orc_times_before_1970(
    fs: MemoryFileIO, shape: str, ticks: int, unit: str, zone: str, taken: bool
) -> None:
    """After stripes without such times; the last second has a form for whole milliseconds of instants only."""
    time = pa.timestamp(unit, zone or None)
    kind, late, early = {
        "plain": (time, 5, ticks),
        "list": (pa.list_(time), [5, None], [ticks]),
        "map": (pa.map_(pa.int32(), time), [(0, None)], [(1, ticks), (2, 7)]),
        "struct": (pa.struct({"x": time, "y": pa.string()}), {"x": 5, "y": "a"}, {"x": ticks, "y": None}),
    }[shape]
    schema = pa.schema([pa.field("t", kind)])
    writer = open_writer(fs, "memory://t/x.orc", "orc", schema, WriterOptions())
    first, second = (
        pa.record_batch([pa.array(v, kind)], schema=schema) for v in ([None, late], [None, early])
    )
    writer.write(first)
    if not taken:
        with pytest.raises(UnsupportedError, match=r"column t.*before 1970.*file\.format"):
            writer.write(second)
        writer.abort()
        return
    writer.write(second)
    assert writer.close().rows == 4
    reader = open_reader(fs, "memory://t/x.orc")
    found = pa.concat_arrays([batch.column("t").cast(kind) for batch in reader.batches()])
    assert found.equals(pa.concat_arrays([first.column("t"), second.column("t")]))


@pytest.mark.parametrize(("kind", "codec"), [("parquet", "lzo"), ("orc", "gzip"), ("avro", "lz4")])
def test_unknown_codecs_are_refused(fs: MemoryFileIO, kind: str, codec: str) -> None:
    with pytest.raises(UnsupportedError, match=codec):
        write(fs, f"memory://t/x.{kind}", row_type(NANOS), [], WriterOptions(compression=codec))


def test_abort_removes_the_file(fs: MemoryFileIO) -> None:
    for kind in ("parquet", "orc", "avro", "row"):
        types = row_type(COLUMNS)
        writer = open_writer(fs, f"memory://t/x.{kind}", kind, arrow_schema(types), WriterOptions())
        writer.write(rows_batch(rows_of(COLUMNS), types, arrow_schema(types)))
        writer.abort()
        assert fs.stat(f"memory://t/x.{kind}") is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("data-1.parquet", "parquet"),
        ("d.v1.zst.orc", "orc"),
        ("x.avro.gz", "avro"),
        ("a/b.c/x.ORC", "orc"),
        ("gz", "gz"),
    ],
)
def test_format_follows_the_last_extension(name: str, kind: str) -> None:
    assert file_format(name) == kind


def test_other_formats_and_missing_files(fs: MemoryFileIO) -> None:
    with pytest.raises(UnsupportedError, match=r"x\.json: .*'json'.*avro, orc, parquet"):
        open_reader(fs, "memory://t/x.json")
    with pytest.raises(UnsupportedError, match="'csv'"):
        open_writer(fs, "memory://t/x.csv", "csv", pa.schema([]), WriterOptions())
    for kind in ("parquet", "orc", "avro", "row"):
        with pytest.raises(NotFoundError):
            open_reader(fs, f"memory://t/none.{kind}")


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro", "row"])
def test_damage_is_named_and_never_read_as_rows(fs: MemoryFileIO, kind: str) -> None:
    types = row_type({"i": ("INT NOT NULL", ()), "s": ("STRING", ())})
    rows = [(i, f"text {i % 13}") for i in range(2000)]
    path = f"memory://t/x.{kind}"
    write(fs, path, types, rows)
    good = fs.read(path)
    middle = len(good) // 3
    flipped = good[:middle] + bytes(byte ^ 255 for byte in good[middle : middle + 40]) + good[middle + 40 :]
    for bad in (b"", good[: len(good) // 2], good[:-9], flipped, b"PAR1" + b"\0" * 40):
        fs.overwrite(path, bad)
        with pytest.raises(CorruptDataError, match=path):
            read(fs, path, types)


def test_size_estimate_tracks_the_file(fs: MemoryFileIO) -> None:
    types = row_type({"i": ("BIGINT NOT NULL", ()), "s": ("STRING", ())})
    schema = arrow_schema(types)
    rows = [(i * 7919 % 100003, f"v{i * 31 % 977}") for i in range(20_000)]
    batch = rows_batch(rows, types, schema)
    for kind in ("parquet", "orc", "avro", "row"):
        writer = open_writer(fs, f"memory://t/s.{kind}", kind, schema, WriterOptions())
        assert writer.size_estimate < 2000
        for _ in range(3):
            writer.write(batch)
        estimate, size = writer.size_estimate, writer.close().size
        assert 0.4 * size < estimate < 2.5 * size, kind


def test_parquet_row_groups_span_batches(fs: MemoryFileIO) -> None:
    types = row_type({"i": ("BIGINT NOT NULL", ()), "s": ("STRING", ())})
    schema = arrow_schema(types)
    batch = rows_batch([(i, "x" * 100) for i in range(1000)], types, schema)
    writer = open_writer(fs, "memory://t/g.parquet", "parquet", schema, WriterOptions(block_size=500_000))
    for _ in range(12):
        writer.write(batch)
    assert writer.close().rows == 12_000
    reader = open_reader(fs, "memory://t/g.parquet")
    assert reader.row_groups == 3
    assert [sum(b.num_rows for b in reader.batches(row_groups=[g])) for g in range(3)] == [5000, 5000, 2000]


def test_dictionaries_only_where_values_repeat(fs: MemoryFileIO) -> None:
    types = row_type({"i": ("BIGINT NOT NULL", ()), "s": ("STRING", ())})
    write(fs, "memory://t/d.parquet", types, [(i, f"v{i % 5}") for i in range(5000)])
    group = pq.ParquetFile(pa.BufferReader(fs.read("memory://t/d.parquet"))).metadata.row_group(0)
    assert [group.column(i).has_dictionary_page for i in range(2)] == [False, True]
    write(fs, "memory://t/e.parquet", types, [(1, "a")] * 9, WriterOptions(dictionary_columns=("i",)))
    group = pq.ParquetFile(pa.BufferReader(fs.read("memory://t/e.parquet"))).metadata.row_group(0)
    assert [group.column(i).has_dictionary_page for i in range(2)] == [True, False]


def test_decimals_that_are_stored_as_bytes_have_no_dictionary(fs: MemoryFileIO) -> None:
    """Java 1.4.2 would not find a value of them in it, and leave the row group out."""
    types = row_type({"a": ("DECIMAL(18, 2)", ()), "b": ("DECIMAL(19, 2)", ()), "c": ("DECIMAL(38, 0)", ())})
    write(fs, "memory://t/d.parquet", types, [(Decimal("2.56"), Decimal("2.56"), Decimal(256))] * 50)
    group = pq.ParquetFile(pa.BufferReader(fs.read("memory://t/d.parquet"))).metadata.row_group(0)
    assert [group.column(i).has_dictionary_page for i in range(3)] == [True, False, False]


@pytest.mark.parametrize(("kind", "wanted"), [("orc", ["a", " b", None]), ("parquet", ["a  ", " b", None])])
def test_orc_cuts_blanks_off_the_end_of_a_char(kind: str, wanted: list[str | None]) -> None:
    """As Java's readers of ORC do, also inside other values."""
    char, stored = parse_type("CHAR(3)"), pa.array(["a  ", " b", None])
    assert canonical(stored, char, f"x.{kind}").to_pylist() == wanted
    lists = pa.ListArray.from_arrays([0, 2, 3], stored)
    assert canonical(lists, ArrayType(char), f"x.{kind}").to_pylist() == [wanted[:2], wanted[2:]]
