"""Fields of ROWs that are read alone: which values a file gives, and what is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakecore
from lakecore.errors import CorruptDataError, InvalidInputError, UnsupportedError
from lakecore.metadata.schema_change import AddColumn, ChangeType, DropColumn, RenameColumn
from lakecore.read.source.row_parts.selection import choose_columns
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.table import Table
from lakecore.types.datatypes import AtomicType, DataField, RowType, TypeRoot
from tests.support.lake import append_table, key_table, live_files, memory_catalog

COLUMNS = ("k INT", "s ROW<a INT, t ROW<x STRING, y BIGINT>, l ARRAY<INT>>")
ROWS: list[dict[str, Any] | None] = [
    {"a": 1, "t": {"x": "one", "y": 10}, "l": [1]},
    {"a": None, "t": {"x": None, "y": 20}, "l": None},
    {"a": 3, "t": None, "l": []},
    None,
]
FORMATS = ("parquet", "orc", "avro")


def rows(table: Table, *columns: str, **scan: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan(columns=list(columns), **scan).to_arrow().to_pylist()
    return found


def write(table: Table, values: list[dict[str, Any] | None], first: int = 0) -> None:
    schema = table.scan().schema
    table.write(pa.Table.from_pylist([{"k": first + i, "s": one} for i, one in enumerate(values)], schema))


def values(table: Table, *columns: str) -> list[Any]:
    return [row["s"] for row in sorted(rows(table, "k", *columns), key=lambda row: row["k"])]


@pytest.mark.parametrize("file_format", FORMATS)
def test_chosen_fields_are_one_column(file_format: str) -> None:
    table = append_table(memory_catalog(), COLUMNS, file__format=file_format)
    write(table, ROWS)
    assert values(table, "s.a") == [{"a": 1}, {"a": None}, {"a": 3}, None]
    assert values(table, "s.t.y", "s.a") == [
        {"a": 1, "t": {"y": 10}},
        {"a": None, "t": {"y": 20}},
        {"a": 3, "t": None},
        None,
    ]
    assert values(table, "s.t") == [one and {"t": one["t"]} for one in ROWS]
    assert values(table, "s.a", "s") == values(table, "s", "s.a") == ROWS
    assert rows(table, "s.l", "k", "s.a")[0] == {"s": {"a": 1, "l": [1]}, "k": 0}
    scan = table.scan(columns=["s.t.y"])
    assert str(scan.schema.field("s").type) == "struct<t: struct<y: int64>>"
    assert scan.to_arrow().schema == scan.schema


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("keyed", [False, True])
def test_fields_are_found_by_their_ids(file_format: str, keyed: bool) -> None:
    """After changes a file has other names and types, and may have none of the fields that are read."""
    catalog = memory_catalog()
    make = key_table if keyed else append_table
    name = "d.k" if keyed else "d.a"
    write(make(catalog, COLUMNS, file__format=file_format), ROWS)
    catalog.alter_table(
        name,
        [
            RenameColumn(("s", "a"), "b"),
            ChangeType(("s", "b"), AtomicType(TypeRoot.BIGINT)),
            DropColumn(("s", "t", "x")),
            AddColumn(path=("s", "a"), type=AtomicType(TypeRoot.VARCHAR, 10)),
            AddColumn(path=("s", "t", "z"), type=AtomicType(TypeRoot.DOUBLE)),
        ],
    )
    table = catalog.load_table(name)
    write(table, [{"b": 7, "t": {"y": 1, "z": 0.5}, "l": None, "a": "new"}], 4)
    assert values(table, "s.b") == [{"b": 1}, {"b": None}, {"b": 3}, None, {"b": 7}]
    assert values(table, "s.a") == [{"a": None}, {"a": None}, {"a": None}, None, {"a": "new"}]
    absent = {"t": {"z": None}}
    assert values(table, "s.t.z") == [absent, absent, {"t": None}, None, {"t": {"z": 0.5}}]
    assert values(table, "s.a", "s.t.z")[:4] == [
        {"t": {"z": None}, "a": None},
        {"t": {"z": None}, "a": None},
        {"t": None, "a": None},
        None,
    ]
    assert values(table, "s.b", "s.t.z")[:4] == [
        {"b": 1, "t": {"z": None}},
        {"b": None, "t": {"z": None}},
        {"b": 3, "t": None},
        None,
    ]


def test_other_fields_of_parquet_are_not_read() -> None:
    """Damage in the pages of a field is met only by a read of that field."""
    catalog = memory_catalog()
    table = append_table(catalog, ("k INT", "s ROW<a INT, wide STRING>"), file__compression="none")
    write(table, [{"a": n, "wide": "x" * 50} for n in range(1000)])
    file_io = table._stores.file_io
    path = table._stores.paths.data_file(f"{table.path}/bucket-0", live_files(table)[0])
    with file_io.open_input(path) as source:
        data = bytearray(source.read())
    chunk = pq.read_metadata(pa.BufferReader(bytes(data))).row_group(0).column(2)
    assert chunk.path_in_schema == "s.wide"
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    file_io.overwrite(path, bytes(data))
    assert [one["a"] for one in values(table, "s.a")] == list(range(1000))
    with pytest.raises(CorruptDataError):
        values(table, "s.wide")


@pytest.mark.parametrize(
    "options",
    [{}, {"merge_engine": "partial-update"}, {"merge_engine": "aggregation"}, {"merge_engine": "first-row"}],
)
def test_rows_are_merged_whole(options: dict[str, str]) -> None:
    """A row that is null is no value for a merge engine, and a row of nulls is one."""
    table = key_table(memory_catalog(), COLUMNS, **options)
    write(table, ROWS)
    nothing = {"a": None, "t": None, "l": None}
    write(table, [nothing, None, {"a": 9, "t": {"x": "new", "y": None}, "l": None}, ROWS[0]])
    whole = values(table, "s")
    assert values(table, "s.a") == [one and {"a": one["a"]} for one in whole]
    assert values(table, "s.t.x") == [one and {"t": one["t"] and {"x": one["t"]["x"]}} for one in whole]


def test_conditions_look_at_whole_rows() -> None:
    table = append_table(memory_catalog(), COLUMNS)
    write(table, ROWS)
    assert [row["s"] for row in rows(table, "s.a", where="s is not null")] == [
        {"a": 1},
        {"a": None},
        {"a": 3},
    ]
    assert rows(table, "s.a", where="s is null") == [{"s": None}]
    with pytest.raises(InvalidInputError, match=r"cannot read '\.a = 1': .* not on a field of a ROW"):
        table.scan(where="s.a = 1")


def test_changes_and_streams() -> None:
    catalog = memory_catalog()
    table = key_table(catalog, COLUMNS)
    write(table, ROWS)
    write(table, [{"a": 5, "t": None, "l": None}])
    stream = table.stream(columns=["k", "s.a"], snapshot=1)
    told = [batch.to_pylist() for changes in stream for batch in changes.to_batches()]
    assert [[row["s"] for row in part] for part in told] == [
        [{"a": 1}, {"a": None}, {"a": 3}, None],
        [{"a": 5}],
    ]
    assert rows(table, "s.a", incremental="1..2") == [{"s": {"a": 5}}]
    log = catalog.load_table("d.k$audit_log")
    assert log.scan(columns=["rowkind", "s.a"], where="k = 0").to_arrow().to_pylist() == [
        {"rowkind": "+I", "s": {"a": 5}}
    ]


def test_what_is_refused() -> None:
    columns = ("v INT", "s ROW<a INT, l ARRAY<ROW<b INT>>, m MAP<INT, ROW<c INT>>>", "l ARRAY<ROW<b INT>>")
    table = append_table(memory_catalog(), columns)
    for name in ("s.z", "z.a", "s.a.b"):
        with pytest.raises((InvalidInputError, UnsupportedError), match=f"column '{name}'"):
            table.scan(columns=[name])
    with pytest.raises(InvalidInputError, match=r"the ROW s has the fields a, l, m"):
        table.scan(columns=["s.z"])
    for name, whole in (("l.b", "l"), ("s.l.b", r"s\.l"), ("s.m.value.c", r"s\.m"), ("l.element.b", "l")):
        with pytest.raises(UnsupportedError, match=f"only fields of a ROW .* are read alone; read {whole}"):
            table.scan(columns=[name])
    assert [field.name for field in table.scan(columns=["s.l", "v"]).row_type] == ["s", "v"]
    with pytest.raises(InvalidInputError, match=r"column 's\.a' .* are not read alone here; read s"):
        table.new_query(columns=["s.a"])


def test_names_with_dots() -> None:
    """A column is meant before a field; a name that means two fields is refused."""
    table = append_table(memory_catalog(), ("`s.a` INT", "s ROW<a INT, `a.b` INT, c ROW<d INT>>"))
    names = ["s.a", "s"]
    table.append(pa.table({"s.a": [1], "s": [{"a": 2, "a.b": 3, "c": {"d": 4}}]}, schema=table.scan().schema))
    assert table.scan(columns=names).to_arrow().to_pylist() == [
        {"s.a": 1, "s": {"a": 2, "a.b": 3, "c": {"d": 4}}}
    ]
    assert table.scan(columns=["s.a"]).to_arrow().to_pylist() == [{"s.a": 1}]
    assert table.scan(columns=["s.a.b", "s.c.d"]).to_arrow().to_pylist() == [{"s": {"a.b": 3, "c": {"d": 4}}}]
    both = append_table(lakecore.load_catalog("memory://dots/wh"), ("s ROW<a ROW<b INT>, `a.b` INT>",))
    with pytest.raises(InvalidInputError, match=r"column 's\.a\.b' names 2 fields"):
        both.scan(columns=["s.a.b"])


def test_ids_that_repeat_are_refused() -> None:
    number = AtomicType(TypeRoot.INT)
    row = RowType((DataField(2, "a", number), DataField(2, "b", number)))
    with pytest.raises(UnsupportedError, match="column s: fields of the ROW have the same ids"):
        choose_columns(["s.a"], RowType((DataField(1, "s", row),)))
    assert choose_columns(["s"], RowType((DataField(1, "s", row),))).field("s").type == row


def test_ranges_of_keys() -> None:
    """The shares of a merge that is cut by keys have the chosen fields of the same rows."""
    table = key_table(memory_catalog(), ("k INT", "s ROW<a INT, wide STRING, b INT>"))
    for step in (1, 3):
        write_rows = [
            None if n % 7 == 0 else {"a": n * step, "wide": f"{n:0100d}", "b": -n} for n in range(20000)
        ]
        write(table, write_rows[::step])
    scan = table.scan(columns=["k", "s.b"])
    assert isinstance(scan.source, SnapshotRows)
    (split,) = scan.plan()
    shares = scan.source.shares(split, 4, scan.columns, None, kinds=False)
    assert len(shares) > 1
    found = [row for share in shares for batch in share() for row in batch.to_pylist()]
    whole = table.scan().to_arrow().to_pylist()
    assert len(whole) == 20000
    assert found == [{"k": row["k"], "s": row["s"] and {"b": row["s"]["b"]}} for row in whole]
