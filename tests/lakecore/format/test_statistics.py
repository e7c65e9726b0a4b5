"""Column statistics: which values, how exact, and that they equal what Java recorded for the same rows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecore.errors import InvalidOptionError
from lakecore.format.bounds import ColumnBounds, FloatFlags
from lakecore.format.data_reader import file_format
from lakecore.format.data_writer import WriterOptions, open_writer
from lakecore.format.statistics import (
    DENSE_STORE,
    StatsKind,
    StatsMode,
    key_modes,
    simple_stats,
    stats_modes,
)
from lakecore.fs.local import LocalFileIO
from lakecore.fs.memory import MemoryFileIO
from lakecore.read.context import ReadContext
from lakecore.read.file.file_reader import read_file, read_type
from lakecore.row.binary_row import decode_row
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import DataField, RowType, parse_type

NAN = float("nan")


def rows(**types: Any) -> RowType:
    return RowType(
        tuple(DataField(i, name, parse_type(kind)) for i, (name, kind) in enumerate(types.items()))
    )


def written(kind: str, schema: pa.Schema, *batches: dict[str, list[Any]]) -> Any:
    fs = MemoryFileIO("statistics")
    fs.clear()
    writer = open_writer(fs, f"memory://s/x.{kind}", kind, schema, WriterOptions())
    for batch in batches:
        writer.write(pa.RecordBatch.from_pydict(batch, schema=schema))
    return writer.close().column_bounds


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_bounds_of_floats_follow_the_formats_order(kind: str) -> None:
    schema = pa.schema({name: pa.float64() for name in ("nan", "all", "neg", "pos", "both", "part")})
    bounds = written(
        kind,
        schema,
        {"nan": [1.0, NAN], "all": [NAN, NAN], "neg": [-0.0, None], "pos": [0.0, None], "both": [0.0, -0.0], "part": [NAN, None]},
        {"nan": [None, -2.0], "all": [NAN, None], "neg": [-0.0, -1.0], "pos": [2.0, 0.0], "both": [None, None], "part": [3.0, 4.0]},
    )  # fmt: skip
    found = {name: repr((b.minimum, b.maximum, b.null_count)) for name, b in bounds.items()}
    assert found == {
        "nan": "(-2.0, nan, 1)",
        "all": "(nan, nan, 1)",
        "neg": "(-1.0, -0.0, 1)",
        "pos": "(0.0, 2.0, 1)",
        "both": "(-0.0, 0.0, 2)",
        "part": "(3.0, nan, 1)",
    }


@given(
    st.lists(st.one_of(st.none(), st.floats(width=32)), max_size=8),
    st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=8),
)
def test_the_parquet_footer_says_the_same_as_a_pass_over_the_rows(
    floats: list[Any], texts: list[Any]
) -> None:
    size = min(len(floats), len(texts))
    schema = pa.schema({"f": pa.float32(), "s": pa.string()})
    batch = {"f": floats[:size], "s": texts[:size]}
    assert repr(written("parquet", schema, batch)) == repr(written("orc", schema, batch))


def test_what_lies_outside_a_slice_or_under_a_null_is_no_value() -> None:
    values = pa.array([NAN, 1.0, -0.0, 2.0, NAN], mask=np.array([False, False, True, False, False]))
    schema = pa.schema({"f": pa.float64()})
    marks = FloatFlags(schema)
    marks.add(pa.RecordBatch.from_arrays([values.slice(1, 3)], schema=schema))
    assert repr(marks.correct("f", ColumnBounds(-0.0, 2.0, 1))) == repr(ColumnBounds(0.0, 2.0, 1))


def test_what_has_no_order_has_no_bounds() -> None:
    schema = arrow_schema(rows(y="BYTES", a={"type": "ARRAY", "element": "INT"}, t9="TIMESTAMP(9)"))
    batch = {"y": [b"a", None], "a": [[1], None], "t9": [1, None]}
    assert written("parquet", schema, batch) == {
        "y": ColumnBounds(null_count=1),
        "a": ColumnBounds(),
        "t9": ColumnBounds(null_count=1),
    }
    assert written("orc", schema, batch)["a"] == ColumnBounds(null_count=1)


MODES = [
    ("none", (None, None, None)),
    ("counts", (None, None, 2)),
    ("full", ("abcdefgh", "abzzzzzz", 2)),
    ("truncate(3)", ("abc", "ac", 2)),
    ("truncate(8)", ("abcdefgh", "abzzzzzz", 2)),
]


@pytest.mark.parametrize(("mode", "expected"), MODES)
def test_modes(mode: str, expected: tuple[Any, Any, Any]) -> None:
    high = "ab" + "\U0010ffff" * 6 if mode == "truncate(3)" else "abzzzzzz"
    stats, names = simple_stats(
        {"s": ColumnBounds("abcdefgh", high, 2)}, rows(s="STRING"), [StatsMode.parse(mode)]
    )
    if mode == "none":
        assert (stats.min_values, stats.null_counts, names) == (bytes(12), (), ())
        return
    shape = rows(s="STRING")
    found = *decode_row(stats.min_values, shape), *decode_row(stats.max_values, shape), *stats.null_counts
    assert (found, names) == (expected, None)


@pytest.mark.parametrize(
    ("text", "length", "upper"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "abd"),
        ("ab\U0010ffffx", 3, "ac"),
        ("\U0010ffff" * 4, 3, None),
        ("a\ud7ffx", 2, "a\ue000"),
        ("😀😀😀", 2, "😀😁"),
    ],
)
def test_cut_upper_bounds_are_rounded_up(text: str, length: int, upper: str | None) -> None:
    mode = StatsMode(StatsKind.TRUNCATE, length)
    stats, _ = simple_stats({"s": ColumnBounds("", text, 0)}, rows(s="STRING"), [mode])
    assert decode_row(stats.max_values, rows(s="STRING")) == (upper,)
    if upper is None:
        assert decode_row(stats.min_values, rows(s="STRING")) == (None,)


@given(st.text(min_size=1, max_size=6), st.integers(1, 5))
def test_upper_bounds_stay_above(text: str, length: int) -> None:
    stats, _ = simple_stats(
        {"s": ColumnBounds(text, text, 0)}, rows(s="STRING"), [StatsMode(StatsKind.TRUNCATE, length)]
    )
    (low,), (high,) = (decode_row(row, rows(s="STRING")) for row in (stats.min_values, stats.max_values))
    assert high is None or low <= text <= high


def test_dense_store_names_what_it_keeps() -> None:
    types = rows(a="INT", b={"type": "ARRAY", "element": "INT"}, c="DECIMAL(20, 2)")
    bounds = {
        "a": ColumnBounds(1, 2, 0),
        "b": ColumnBounds(),
        "c": ColumnBounds(Decimal("1.00"), Decimal("2.00"), 1),
    }
    modes = stats_modes(types, {}, "truncate(16)")
    stats, names = simple_stats(bounds, types, modes)
    assert names == ("a", "c")
    assert stats.null_counts == (0, 1)
    stats, names = simple_stats(bounds, types, modes, dense=False)
    assert names is None
    assert stats.null_counts == (0, None, 1)


def test_modes_by_options() -> None:
    types = rows(a="INT", b="INT", c="INT")
    raw = {"metadata.stats-keep-first-n-columns": "1", "fields.c.stats-mode": "counts"}
    assert [mode.kind.value for mode in stats_modes(types, raw, "full")] == ["full", "none", "counts"]
    thin = stats_modes(
        types, {**raw, "metadata.stats-keep-first-n-columns": "0"}, "none", thin_keys=("a", "c")
    )
    assert [(mode.kind.value, mode.length) for mode in thin] == [
        ("truncate", 128),
        ("none", 0),
        ("counts", 0),
    ]


@pytest.mark.parametrize(
    ("kind", "default", "thin", "expected"),
    [
        ("parquet", "none", False, ["truncate128", "truncate128"]),
        ("orc", "counts", False, ["truncate128", "truncate128"]),
        ("avro", "none", False, ["none0", "none0"]),
        ("avro", "counts", False, ["counts0", "counts0"]),
        ("avro", "truncate(16)", False, ["truncate16", "truncate16"]),
        ("parquet", "none", True, ["full0", "truncate128"]),
        ("avro", "none", True, ["full0", "none0"]),
    ],
)
def test_modes_of_keys_as_java_chooses_them(kind: str, default: str, thin: bool, expected: list[str]) -> None:
    modes = key_modes(rows(a="STRING", b="INT"), {"fields.a.stats-mode": "full"}, default, kind, thin=thin)
    assert [f"{mode.kind.value}{mode.length}" for mode in modes] == expected


def test_modes_that_do_not_exist() -> None:
    types = rows(a="INT")
    for key, text in (("fields.a.stats-mode", "truncate(0)"), ("fields.a.stats-mode", "some")):
        with pytest.raises(InvalidOptionError, match=rf"{key}.*{text[:4]}"):
            stats_modes(types, {key: text}, "full")
    with pytest.raises(InvalidOptionError, match=r"metadata\.stats-mode"):
        stats_modes(types, {}, "max")


def test_key_statistics_of_thin_files_come_from_the_value_column() -> None:
    stats, _ = simple_stats(
        {"k": ColumnBounds(1, 2, 0)},
        rows(_KEY_k="INT"),
        key_modes(rows(k="INT"), {}, "full", "parquet"),
        dense=False,
    )
    assert decode_row(stats.max_values, rows(k="INT")) == (2,)


GOLDEN = ["counts", "first_n", "full", "nodense", "none", "trunc_overflow", "truncate16"]
TABLES = [f"g1.a_stats_{name}" for name in GOLDEN] + ["g1.a_types_extreme", "g1.a_types_pk_parquet"]
TABLES += ["g1.a_types_append_orc", "g1.a_types_pk_avro", "g1.a_pk_thin_composite", "g1.a_pk_composite"]


@pytest.mark.parametrize("name", TABLES)
def test_recomputed_statistics_equal_those_java_recorded(name: str) -> None:
    from tests.support.golden import golden_table

    file_io, paths = LocalFileIO(), TablePaths(str(golden_table(name).path))
    schemas = SchemaStore(file_io, paths)
    schema = schemas.load(0)
    ctx = ReadContext(file_io, paths, schema, schemas)
    checked = 0
    for split in _live_splits(file_io, paths, schemas):
        for file in split.files:
            if file.schema_id != 0:
                continue
            bucket_dir = ctx.bucket_dir(split.partition, split.bucket)
            bounds = _rewritten_bounds(ctx, bucket_dir, file)
            mode = schema.options.get("metadata.stats-mode", "truncate(16)")
            thin = schema.trimmed_primary_keys if schema.options.get("data-file.thin-mode") == "true" else ()
            modes = stats_modes(schema.row_type, schema.options, mode, thin_keys=thin)
            found = simple_stats(bounds, schema.row_type, modes, dense=DENSE_STORE.read(schema.options))
            assert found == (file.value_stats, file.value_stats_cols)
            if schema.primary_keys:
                key = simple_stats(
                    bounds,
                    schema.key_type,
                    key_modes(schema.key_type, schema.options, mode, file_format(file.file_name)),
                    dense=False,
                )
                assert key == (file.key_stats, None)
            checked += 1
    assert checked


def _live_splits(file_io: LocalFileIO, paths: TablePaths, schemas: SchemaStore) -> Any:
    from lakecore import load_catalog

    warehouse, database, table = paths.table_path.rsplit("/", 2)
    return load_catalog(warehouse).load_table(f"{database.removesuffix('.db')}.{table}").scan().plan()


def _rewritten_bounds(ctx: ReadContext, bucket_dir: str, file: Any) -> Any:
    """Bounds that writing the file's rows again gives. Thin files have no key columns, nor do append files."""
    types = read_type(ctx)
    kind = file_format(file.file_name)
    fs = MemoryFileIO("rewritten")
    fs.clear()
    writer = open_writer(fs, f"memory://r/x.{kind}", kind, arrow_schema(types), WriterOptions())
    for batch in read_file(ctx, bucket_dir, file):
        writer.write(batch)
    return writer.close().column_bounds
