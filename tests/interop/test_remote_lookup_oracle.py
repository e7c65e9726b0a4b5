"""Lookup files that Java's compactions leave beside data files: rows are those of the merged read, and data files are not read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakecore
from lakecore.errors import CorruptDataError
from lakecore.format.lookup_file.reader import read_entries
from lakecore.fs.local import LocalFileIO
from lakecore.jobs import compact, expire_snapshots, remove_orphan_files
from lakecore.jobs.definitions.expiry import RemoveOrphanFiles
from lakecore.lookup.query import copy_writer
from lakecore.lookup.query.serialized_query import SerializedQuery
from lakecore.row.binary_row import EMPTY_ROW
from lakecore.service.wire.row_codec import RowCodec
from lakecore.table import Table
from tests.support.lake import live_files
from tests.support.oracle import Oracle, findings

RELEASES = ["1.4.2", "2.0.0"]
REMOTE = {"bucket": "1", "changelog-producer": "lookup", "lookup.remote-file.enabled": "true"}
COLUMNS = [
    "k INT NOT NULL", "s STRING", "c CHAR(4)", "a BYTES", "b BOOLEAN", "i1 TINYINT", "i2 SMALLINT", "i8 BIGINT",
    "f FLOAT", "g DOUBLE", "d DECIMAL(10, 2)", "e DECIMAL(38, 4)", "t0 TIMESTAMP(0)", "t3 TIMESTAMP(3)", "t6 TIMESTAMP(6)",
    "t9 TIMESTAMP(9)", "z TIMESTAMP(6) WITH LOCAL TIME ZONE", "da DATE", "ti TIME",
]  # fmt: skip


def row(k: int) -> dict[str, Any]:
    if k % 5 == 0:
        return {"k": k}
    sign = "-" if k % 2 else ""
    return {
        "k": k, "s": "é" * (k % 300), "c": "ab", "a": "AAEC", "b": k % 2 == 0, "i1": k % 100 - 50, "i2": -k, "i8": k * 10**12,
        "f": k / 4, "g": -k / 8, "d": f"{sign}{k}.25", "e": f"{sign}{k * 10**28}.0001", "t0": "1969-12-31 23:59:59",
        "t3": "2001-02-03 04:05:06.789", "t6": "1960-01-01 00:00:00.000001", "t9": "2001-02-03 04:05:06.123456789",
        "z": "2020-01-01 00:00:00.5", "da": "1950-06-07", "ti": "12:34:56",
    }  # fmt: skip


@pytest.fixture
def data_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files that copies are made from."""
    read: list[str] = []
    real = copy_writer.read_file

    def counted(ctx: Any, folder: str, file: Any, *args: Any, **more: Any) -> Any:
        read.append(file.file_name)
        return real(ctx, folder, file, *args, **more)

    monkeypatch.setattr(copy_writer, "read_file", counted)
    return read


def written(
    oracle: Oracle, warehouse: Path, columns: list[str] = COLUMNS, count: int = 1500, **options: str
) -> Table:
    more = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    oracle.create(warehouse, "d.t", {"columns": columns, "primaryKeys": ["k"], "options": REMOTE | more})
    names = [column.split()[0] for column in columns]
    rows = [{name: value for name, value in row(k).items() if name in names} for k in range(count)]
    oracle.write(warehouse, "d.t", rows)
    oracle.write(warehouse, "d.t", [{"_kind": "-D", "k": 7}, {"k": 8, "s": "new"}, {"k": count + 1, "s": ""}])
    return lakecore.load_catalog(str(warehouse)).load_table("d.t")


def remote_files(table: Table) -> list[Path]:
    folder = Path(table.path) / "bucket-0"
    return [folder / name for file in live_files(table) for name in file.extra_files]


def check(table: Table) -> None:
    """All keys have the rows of the merged read, in lookups of many keys, of one, and of the service."""
    rows = table.scan().to_arrow().sort_by("k")
    keys = rows.select(["k"])
    absent = pa.table({"k": pa.array([7, -1, 10**9], pa.int32())})
    with table.new_query() as query:
        query.refresh()
        found = query.lookup_table(keys)
        assert found.matches.to_pylist() == [True] * rows.num_rows
        assert found.rows.to_pylist() == rows.to_pylist()
        assert query.lookup_table(absent).matches.to_pylist() == [False] * 3
        assert query.lookup((), 0, (8,)) == rows.to_pylist()[7]
    with SerializedQuery(table) as service:
        service.refresh()
        codec = RowCodec(table.schema)
        values = service.lookup(EMPTY_ROW, 0, codec.keys_bytes(keys.slice(0, 50)))
        assert codec.found_rows(values).rows.to_pylist() == rows.to_pylist()[:50]


@pytest.mark.parametrize("compression", ["zstd", "lz4", "none"])
@pytest.mark.parametrize("release", RELEASES)
def test_all_types(
    release: str, compression: str, oracles: dict[str, Oracle], tmp_path: Path, data_files: list[str]
) -> None:
    options = {"lookup__cache_spill_compression": compression}
    table = written(oracles[release], tmp_path, **options)
    assert len(remote_files(table)) == 2
    check(table)
    assert data_files == []


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_merge_engines(engine: str, oracle2: Oracle, tmp_path: Path, data_files: list[str]) -> None:
    table = written(
        oracle2, tmp_path, ["k INT NOT NULL", "s STRING"], merge_engine=engine, ignore_delete="true"
    )
    with table.new_query() as query:
        query.refresh()
        rows = table.scan().to_arrow().sort_by("k")
        assert query.lookup_table(rows.select(["k"])).rows.to_pylist() == rows.to_pylist()
    assert remote_files(table)
    assert data_files == []


def test_damage_is_passed_over(oracle2: Oracle, tmp_path: Path, data_files: list[str]) -> None:
    """Wherever a file is damaged, and where it is cut, empty or gone, the data file is read."""
    table = written(oracle2, tmp_path, ["k INT NOT NULL", "s STRING", "d DECIMAL(10, 2)"], 400)
    first = max(remote_files(table), key=lambda path: path.stat().st_size)
    other = min(remote_files(table), key=lambda path: path.stat().st_size)
    whole = first.read_bytes()
    changed = [whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :] for at in range(0, len(whole), 131)]
    used = 0
    for data in [*changed, whole[:-40], b"", bytes(len(whole)), whole + b"x", other.read_bytes(), None]:
        first.unlink(missing_ok=True)
        if data is not None:
            first.write_bytes(data)
        data_files.clear()
        check(table)
        used += not data_files
    assert used < len(changed) / 2  # the bloom filter is not read, so that damage in it is none
    first.write_bytes(whole)
    data_files.clear()
    check(table)
    assert data_files == []


def test_no_damage_is_an_error_of_another_kind(oracle2: Oracle, tmp_path: Path) -> None:
    """The reader raises CorruptDataError, or yields what is there."""
    table = written(oracle2, tmp_path, ["k INT NOT NULL", "s STRING"], 60)
    path = max(remote_files(table), key=lambda path: path.stat().st_size)
    whole = path.read_bytes()
    refused = 0
    for at in range(len(whole)):
        for bit in (1, 0x80):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            try:
                with LocalFileIO().open_ranges(str(path)) as source:
                    assert sum(map(len, read_entries(source, str(path)))) == 60
            except CorruptDataError:
                refused += 1
    assert refused > len(whole)


def test_what_is_read_from_data_files(oracle2: Oracle, tmp_path: Path, data_files: list[str]) -> None:
    table = written(oracle2, tmp_path, ["k INT NOT NULL", "s STRING", "d DECIMAL(10, 2)"], 100)
    with table.new_query(["k", "s"]) as query:
        query.refresh()
        assert query.lookup((), 0, (8,)) == {"k": 8, "s": "new"}
    assert len(data_files) == 1
    oracle2.call("alter", tmp_path, "d.t", '[{"op": "type", "name": "d", "type": "DECIMAL(12, 2)"}]')
    data_files.clear()
    check(table)
    assert len(data_files) == 4  # two files, of a query and of a service
    check(lakecore.load_catalog(str(tmp_path)).load_table("d.t"))


NESTED = [
    "k INT NOT NULL",
    "l ARRAY<STRING>",
    "m MAP<STRING, INT>",
    "r ROW<x INT, y ROW<z STRING, w DECIMAL(20, 3)>>",
    "v VARIANT",
]


def nested_row(k: int) -> dict[str, Any]:
    if k % 7 == 0:
        return {"k": k}
    inner = None if k % 3 == 0 else {"z": "text" * (k % 5), "w": f"-{k}.125"}
    return {
        "k": k,
        "l": ["a", None, "b" * (k % 40)],
        "m": [["one", k]],
        "r": {"x": k, "y": inner},
        "v": json.dumps({"k": [k, "v"]}),
    }


FORMS: dict[str, tuple[list[str], dict[str, str]]] = {
    "value": (COLUMNS, {}),
    "nested": (NESTED, {}),
    "position-and-value": (COLUMNS, {"deletion-vectors.enabled": "true"}),
    "position": (["k INT NOT NULL", "s STRING"], {"deletion-vectors.enabled": "true", "changelog-producer": "none"}),
    "empty": (["k INT NOT NULL", "s STRING"], {"merge-engine": "first-row"}),
    "texts": (["k STRING NOT NULL", "j DECIMAL(30, 2) NOT NULL", "s STRING"], {"cache-page-size": "1 kb"}),
}  # fmt: skip


KINDS = {"nested": "value", "texts": "value"}


def compacted(
    oracle: Oracle, warehouse: Path, form: str, more: dict[str, str], *, by_java: bool
) -> tuple[Table, list[Path]]:
    """A table of which one side made the lookup files; the other side compacts a copy."""
    columns, options = FORMS[form]
    keys = [column.split()[0] for column in columns if column.endswith("NOT NULL")]
    schema = {
        "columns": columns,
        "primaryKeys": keys,
        "options": REMOTE | {"write-only": "true"} | options | more,
    }
    oracle.create(warehouse, "d.t", schema)
    names = [column.split()[0] for column in columns]
    for low in (0, 900):
        rows = [nested_row(k) if form == "nested" else row(k) for k in range(low, low + 1500)]
        if form == "texts":
            rows = [
                {"k": f"key {one['k'] % 9}" * (one["k"] % 9), "j": f"{one['k']}.25", "s": one.get("s")}
                for one in rows
            ]
        oracle.write(warehouse, "d.t", [{name: one[name] for name in names if name in one} for one in rows])
    lake = lakecore.load_catalog(str(warehouse))
    if by_java:
        oracle.call("compact", warehouse, "d.t", "--full", "--option", "write-only=false")
    else:
        compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), lake)
    table = lake.load_table("d.t")
    return table, remote_files(table)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("form", list(FORMS))
def test_files_are_those_that_java_writes(
    form: str, release: str, oracles: dict[str, Oracle], tmp_path: Path
) -> None:
    oracle, more = oracles[release], {"lookup.cache-spill-compression": "none"}
    _, (ours,) = compacted(oracle, tmp_path / "ours", form, more, by_java=False)
    _, (theirs,) = compacted(oracle, tmp_path / "java", form, more, by_java=True)
    assert ours.name.endswith(f".{ours.stat().st_size}.{KINDS.get(form, form)}.v1.lookup")
    assert theirs.name.endswith(ours.name.partition(".parquet")[2])
    assert ours.read_bytes() == theirs.read_bytes()
    assert findings(oracle.fsck(tmp_path / "ours", "d.t")) == set()


def written_once(oracle: Oracle, warehouse: Path, form: str, more: dict[str, str]) -> Table:
    """A table of one file on level 0."""
    columns, options = FORMS[form]
    schema = {
        "columns": columns,
        "primaryKeys": ["k"],
        "options": REMOTE | {"write-only": "true", "lookup.cache-spill-compression": "none"} | options | more,
    }
    oracle.create(warehouse, "d.t", schema)
    names = [column.split()[0] for column in columns]
    oracle.write(
        warehouse, "d.t", [{name: one[name] for name in names if name in one} for one in map(row, range(700))]
    )
    return lakecore.load_catalog(str(warehouse)).load_table("d.t")


MOVES = {
    "told": ("value", {}),
    "marked": ("position", {}),
    "marked and told": ("position-and-value", {}),
    "neither": ("value", {"changelog-producer": "none", "force-lookup": "true"}),
}


@pytest.mark.parametrize("move", list(MOVES))
def test_a_file_that_leaves_level_0_as_it_is_gets_what_java_gives_it(
    move: str, oracle2: Oracle, tmp_path: Path
) -> None:
    form, more = MOVES[move]
    table = written_once(oracle2, tmp_path / "ours", form, more)
    (level_0,) = live_files(table)
    compact.run(
        compact.Job(table="d.t", strategy=compact.Strategy.FULL),
        lakecore.load_catalog(str(tmp_path / "ours")),
    )
    (moved,) = live_files(table)
    assert (moved.file_name, moved.level) == (level_0.file_name, 5)
    written_once(oracle2, tmp_path / "java", form, more)
    oracle2.call("compact", tmp_path / "java", "d.t", "--full", "--option", "write-only=false")
    java = lakecore.load_catalog(str(tmp_path / "java")).load_table("d.t")
    ((ours,), (theirs,)) = (remote_files(table), remote_files(java))
    assert live_files(java)[0].level == 5
    assert ours.read_bytes() == theirs.read_bytes()
    assert findings(oracle2.fsck(tmp_path / "ours", "d.t")) == set()


def test_both_read_the_lookup_file_of_a_file_that_moved(
    oracle2: Oracle, tmp_path: Path, data_files: list[str]
) -> None:
    """Nobody needs the data file then. The lookup file lives as long as the data file."""
    table = written_once(oracle2, tmp_path, "value", {})
    lake = lakecore.load_catalog(str(tmp_path))
    compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), lake)
    (path,) = remote_files(table)
    os.utime(path, (1000, 1000))
    remove_orphan_files.run(RemoveOrphanFiles(table="d.t"), lake)
    (data,) = (path.with_name(file.file_name) for file in live_files(table))
    rows = table.scan().to_arrow().sort_by("k")
    data.rename(tmp_path / "moved")
    keys = tmp_path / "keys.jsonl"
    keys.write_text("".join(f'{{"k": {k}}}\n' for k in (0, 8, 699, -5)))
    answers = [one["row"] for one in oracle2.call("lookup", tmp_path, "d.t", keys)]
    assert [None if one is None else one["k"] for one in answers] == [0, 8, 699, None]
    with table.new_query() as query:
        query.refresh()
        assert query.lookup_table(rows.select(["k"])).rows.to_pylist() == rows.to_pylist()
    assert data_files == []
    (tmp_path / "moved").rename(data)
    oracle2.write(tmp_path, "d.t", [row(k) for k in range(700)])
    compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), lake)
    expire_snapshots.run(expire_snapshots.Job(table="d.t", retain_max=1, retain_min=1), lake)
    assert not path.exists()
    assert not data.exists()
    assert findings(oracle2.fsck(tmp_path, "d.t")) == set()


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_files(compression: str, oracle2: Oracle, tmp_path: Path) -> None:
    """Compressors differ between the two sides: entries are the same."""
    more = {"lookup.cache-spill-compression": compression}
    _, (ours,) = compacted(oracle2, tmp_path / "ours", "value", more, by_java=False)
    _, (theirs,) = compacted(oracle2, tmp_path / "java", "value", more, by_java=True)
    assert entries(ours) == entries(theirs)
    assert ours.stat().st_size < 1.2 * theirs.stat().st_size


def entries(path: Path) -> list[bytes]:
    with LocalFileIO().open_ranges(str(path)) as source:
        return [
            part.data[start:end].tobytes()
            for part in read_entries(source, str(path))
            for start, end in zip(part.starts.tolist(), part.ends.tolist(), strict=True)
        ]


@pytest.mark.parametrize("form", ["value", "nested"])
def test_both_read_what_lakecore_wrote(
    form: str, oracle2: Oracle, tmp_path: Path, data_files: list[str]
) -> None:
    """Without the data file, which nobody needs then; queries of Java 1.4.2 always read it."""
    table, (path,) = compacted(oracle2, tmp_path, form, {}, by_java=False)
    rows = table.scan().to_arrow().sort_by("k")
    data = path.with_name(path.name[: path.name.index(".parquet") + len(".parquet")])
    data.rename(tmp_path / "moved")
    asked = [0, 7, 8, 1234, 2399, -5]
    keys = tmp_path / "keys.jsonl"
    keys.write_text("".join(f'{{"k": {k}}}\n' for k in asked))
    answers = [one["row"] for one in oracle2.call("lookup", tmp_path, "d.t", keys)]
    assert [None if one is None else one["k"] for one in answers] == [*asked[:-1], None]
    with table.new_query() as query:
        query.refresh()
        assert query.lookup_table(rows.select(["k"])).rows.to_pylist() == rows.to_pylist()
    assert data_files == []


def test_levels_below_the_threshold_have_none(oracle2: Oracle, tmp_path: Path) -> None:
    more = {"lookup.remote-file.level-threshold": "6"}
    assert compacted(oracle2, tmp_path, "value", more, by_java=False)[1] == []


def test_lookup_files_go_with_their_data_files(oracle2: Oracle, tmp_path: Path) -> None:
    """Expiry removes those of files that a compaction replaced; the search for orphans finds those that nothing refers to."""
    table = written(oracle2, tmp_path, ["k INT NOT NULL", "s STRING"], 100)
    before = remote_files(table)
    lake = lakecore.load_catalog(str(tmp_path))
    compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), lake)
    assert all(path.exists() for path in before)
    (new,) = remote_files(table)
    check(lake.load_table("d.t"))
    orphan = new.with_name(f"data-lost-0.parquet.{new.stat().st_size}.value.v1.lookup")
    orphan.write_bytes(new.read_bytes())
    os.utime(orphan, (1000, 1000))
    expire_snapshots.run(expire_snapshots.Job(table="d.t", retain_max=1, retain_min=1), lake)
    assert not any(path.exists() for path in before)
    assert new.exists()
    remove_orphan_files.run(RemoveOrphanFiles(table="d.t"), lake)
    assert not orphan.exists()
    assert new.exists()
    assert findings(oracle2.fsck(tmp_path, "d.t")) == set()
    assert len(oracle2.read(tmp_path, "d.t")) == 100  # of 101 keys one is deleted


def test_deletion_vectors_and_levels(oracle2: Oracle, tmp_path: Path, data_files: list[str]) -> None:
    options = {"deletion_vectors__enabled": "true"}
    check(written(oracle2, tmp_path / "vectors", ["k INT NOT NULL", "s STRING"], 100, **options))
    assert data_files
    options = {"lookup__remote_file__level_threshold": "9"}
    table = written(oracle2, tmp_path / "levels", ["k INT NOT NULL", "s STRING"], 100, **options)
    assert remote_files(table) == []
    check(table)
