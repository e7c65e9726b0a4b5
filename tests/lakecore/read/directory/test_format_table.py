"""Format tables without Java, which judges the rows in tests/interop/test_format_tables_oracle.py: what is refused, and
what a directory may have that no writer put there.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from lakecore.catalog.definition import TableDefinition, first_schema
from lakecore.errors import CorruptDataError, InvalidInputError, InvalidOptionError, UnsupportedError
from lakecore.fs.local import LocalFileIO
from lakecore.read.directory import lines
from lakecore.read.directory.format_table import FormatTable
from lakecore.read.directory.lines import read_lines
from lakecore.system.object_table import ObjectTable


def format_table(path: Path, *columns: str, keys: tuple[str, ...] = (), **options: str) -> FormatTable:
    definition = TableDefinition.from_json({"columns": list(columns), "partitionKeys": list(keys)})
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    schema = replace(first_schema(definition, 0), options={"type": "format-table", **named})
    return FormatTable("db.t", str(path), schema, LocalFileIO())


def rows(table: FormatTable, **scan: object) -> list[object]:
    return table.scan(**scan).to_arrow().to_pylist()  # type: ignore[arg-type]


def test_a_directory_is_read_with_its_partitions(tmp_path: Path) -> None:
    for directory, text in (
        ("p=b", "3,c\n"),
        ("p=a%2Fb", "1,x\n2,\n"),
        ("_p=c", "9,9\n"),
        ("p=__DEFAULT_PARTITION__", "4,d"),
    ):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "1.csv").write_text(text)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "1.csv").write_text("8,8\n")
    table = format_table(tmp_path, "a INT", "b STRING", "p STRING", keys=("p",), file__format="csv")
    assert rows(table, where="a < 4") == [
        {"a": 1, "b": "x", "p": "a/b"},
        {"a": 2, "b": None, "p": "a/b"},
        {"a": 3, "b": "c", "p": "b"},
    ]
    assert rows(table, columns=["p"], limit=2) == [{"p": None}, {"p": "a/b"}]
    assert table.scan().count() == 4
    assert len(table.scan(where="p = 'b'").plan()) == 1
    assert [one.spec["p"] for one in table.partitions("p is not null")] == ["a/b", "b"]
    assert rows(pickle.loads(pickle.dumps(table)))


def test_it_has_no_snapshots(tmp_path: Path) -> None:
    table = format_table(tmp_path, "a INT", file__format="csv")
    for call in (
        lambda: table.write(None),
        lambda: table.latest_snapshot(),
        lambda: table._stores,
        lambda: table.stream(),
    ):
        with pytest.raises(UnsupportedError, match=r"db\.t is a format table: it has no snapshots"):
            call()
    with pytest.raises(InvalidInputError, match="no snapshots, and so no snapshot"):
        table.scan(snapshot=1)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"file__format": "avro"}, InvalidOptionError, "csv, json, text, parquet, orc"),
        ({"file__format": "csv", "quote": ","}, InvalidOptionError, "three different"),
        ({"file__format": "csv", "lineSep": ""}, InvalidOptionError, "empty"),
        ({"file__format": "csv", "csv__mode": "x"}, InvalidOptionError, "permissive"),
        ({"file__format": "csv", "metastore__partitioned_table": "true"}, UnsupportedError, "catalog lists"),
        ({"file__format": "csv", "scan__ignore_lost_files": "true"}, UnsupportedError, "left out"),
        ({"file__format": "csv", "format_table__implementation": "engine"}, UnsupportedError, "engine"),
    ],
)  # fmt: skip
def test_what_cannot_be_obeyed(
    tmp_path: Path, options: dict[str, str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        format_table(tmp_path, "a INT", **options).scan()


def test_columns_that_a_format_cannot_carry(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="column a of type"):
        format_table(tmp_path, "a ARRAY<INT>", file__format="csv").scan()
    with pytest.raises(UnsupportedError, match="one STRING column"):
        format_table(tmp_path, "a STRING", "b STRING", file__format="text").scan()


def test_options_for_a_run(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1|x\n")
    table = format_table(tmp_path, "a INT", "b STRING", file__format="csv")
    assert rows(table.with_options({"csv.field-delimiter": "|"})) == [{"a": 1, "b": "x"}]
    with pytest.raises(UnsupportedError, match="option bucket has no effect"):
        table.with_options({"bucket": "1"})


@pytest.mark.parametrize("inside", [True, False])
def test_links_are_not_followed(tmp_path: Path, inside: bool) -> None:
    home = tmp_path / "t"
    home.mkdir()
    (tmp_path / "secret.csv").write_text("1\n")
    (home / "a.csv").write_text("1\n")
    os.symlink(home / "a.csv" if inside else tmp_path / "secret.csv", home / "b.csv")
    for table in (
        format_table(home, "a INT", file__format="csv"),
        ObjectTable("db.o", str(home), None, LocalFileIO()),
    ):  # type: ignore[arg-type]
        with pytest.raises(UnsupportedError, match=r"b\.csv is a symbolic link"):
            table.scan().count()
    os.remove(home / "b.csv")
    os.symlink(tmp_path, home / "p=1")
    with pytest.raises(UnsupportedError, match="p=1 is a symbolic link"):
        format_table(home, "a INT", "p INT", keys=("p",), file__format="csv").scan().count()


def test_malformed_rows_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1\nx\n")
    with pytest.raises(CorruptDataError, match=r"a\.csv: line 2, 'x': column a"):
        rows(format_table(tmp_path, "a INT", file__format="csv", csv__mode="failfast"))
    with pytest.raises(CorruptDataError, match=r"a\.csv: line 1, '1': it is not a JSON object"):
        rows(format_table(tmp_path, "a INT", file__format="json"))
    with pytest.raises(CorruptDataError, match=r"a\.csv"):
        rows(format_table(tmp_path, "a INT", file__format="parquet"))
    (tmp_path / "p=x").mkdir()
    with pytest.raises(CorruptDataError, match=r"p=x: is no partition directory"):
        rows(format_table(tmp_path, "a INT", "p INT", keys=("p",), file__format="csv"))


def test_a_time_that_java_reads_otherwise_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("12:00:00+01\n")
    with pytest.raises(UnsupportedError, match="does not know how Java reads '12:00:00"):
        rows(format_table(tmp_path, "a TIME(0)", file__format="csv"))


def test_lines_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    for data in (b"\xef\xbb\xbfa\r\nb\rc\n\nd\r", b"\r\n", b"a", b"", b"\xef\xbb\xbf"):
        path.write_bytes(data)
        whole = [line for part in read_lines(LocalFileIO(), str(path), "\n") for line in part]
        monkeypatch.setattr(lines, "_CHUNK", 1)
        assert [line for part in read_lines(LocalFileIO(), str(path), "\n") for line in part] == whole
        monkeypatch.undo()
    path.write_bytes(b"x;;y;" * 3)
    monkeypatch.setattr(lines, "_CHUNK", 2)
    assert [line for part in read_lines(LocalFileIO(), str(path), ";;") for line in part] == [
        "x",
        "y;x",
        "y;x",
        "y;",
    ]
    monkeypatch.setattr(lines, "_LONGEST", 4)
    with pytest.raises(CorruptDataError, match="is its delimiter 'z'"):
        list(read_lines(LocalFileIO(), str(path), "z"))


@pytest.mark.parametrize("suffix", ["snappy", "lz4"])
def test_codecs_of_hadoop_blocks(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.csv.{suffix}").write_bytes(b"x")
    with pytest.raises(UnsupportedError, match=f"Hadoop's {suffix} codec"):
        rows(format_table(tmp_path, "a INT", file__format="csv"))
