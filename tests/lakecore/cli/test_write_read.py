from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.lakecore.cli.conftest import SCHEMA, Cli

ROW = '{"_kind":"+I","k":1,"v":"x","d":"1.50","a":[1,null]}'


def test_create_write_read(cli: Cli, keyed: str) -> None:
    assert cli("read", keyed).lines == [ROW]
    assert cli("read", keyed, "--columns", "v,k").lines == ['{"v":"x","k":1}']
    done = cli("write", keyed, "-", "--json", stdin='{"k": 2}\n{"_kind": "-D", "k": 1}')
    assert (done.json["rows"], done.json["snapshots"]) == (2, [2])
    assert cli("read", keyed).rows == [{"k": 2, "v": None, "d": None, "a": None}]
    assert cli("read", keyed, "--snapshot", "1").lines == [ROW]
    assert cli("read", keyed, "--where", "k = 7").lines == []
    assert cli("read", keyed, "--limit", "0").lines == []


def test_compaction_follows_unless_the_table_is_write_only(cli: Cli, keyed: str) -> None:
    for i in range(6):
        answer = cli("write", keyed, "-", "--json", stdin=json.dumps({"k": i}))
        assert answer.code == 0
    assert any(row["kind"] == "COMPACT" for row in cli("snapshots", keyed, "--json").json)
    write_only = {**SCHEMA, "options": {"bucket": "1", "write-only": "true"}}
    cli("create", "db.w", "--schema", json.dumps(write_only))
    for i in range(7):
        assert cli("write", "db.w", "-", "--json", stdin=json.dumps({"k": i})).json["compaction"] is None


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow"])
def test_what_read_writes_write_reads(cli: Cli, keyed: str, form: str, tmp_path: Path) -> None:
    cli("write", keyed, "-", stdin='{"k": 2, "v": ""}\n{"k": 3, "v": "a,\\"b\\"\\nc", "d": "-0.01"}')
    path = str(tmp_path / f"out.{form}")
    assert cli("read", keyed, "--output", path).code == 0
    cli("create", "db.copy", "--schema", json.dumps(SCHEMA))
    assert cli("write", "db.copy", path).code == 0
    assert cli("read", "db.copy").rows == cli("read", keyed).rows
    assert not list(tmp_path.glob("*.partial"))


def test_formats_on_standard_output(cli: Cli, keyed: str) -> None:
    assert cli("read", keyed, "--format", "csv").lines[0] == '"k","v","d","a"'
    table = cli("read", keyed, "--format", "table").out
    assert "k" in table
    assert "[1,null]" in table


def test_arrow_and_parquet_files(cli: Cli, keyed: str, tmp_path: Path) -> None:
    cli("read", keyed, "--output", str(tmp_path / "o.parquet"))
    assert pq.ParquetFile(tmp_path / "o.parquet").read().to_pylist()[0]["a"] == [1, None]
    cli("read", keyed, "--format", "arrow", "--output", str(tmp_path / "o.bin"))
    assert pa.ipc.open_stream(tmp_path / "o.bin").read_all().num_rows == 1
    with (
        pa.OSFile(str(tmp_path / "o.feather"), "wb") as sink,
        pa.ipc.new_file(sink, pa.schema([("k", pa.int32())])) as out,
    ):
        out.write_batch(pa.record_batch({"k": pa.array([9], pa.int32())}))
    assert cli("write", keyed, str(tmp_path / "o.feather")).code == 0
    assert [row["k"] for row in cli("read", keyed).rows] == [1, 9]


def test_overwrite(cli: Cli, parted: str) -> None:
    cli("write", parted, "-", "--overwrite", "dynamic", stdin='{"p": "a", "n": 10}')
    assert cli("read", parted).rows == [{"p": "a", "n": 10}, {"p": "b", "n": 2}]
    cli("write", parted, "-", "--overwrite", "p=b", stdin='{"p": "b", "n": 20}')
    assert cli("read", parted).rows == [{"p": "a", "n": 10}, {"p": "b", "n": 20}]
    refused = cli("write", parted, "-", "--overwrite", "p=b", stdin='{"p": "a", "n": 0}')
    assert refused.code == 1
    cli("write", parted, "-", "--overwrite", "all", stdin='{"p": "c", "n": 30}')
    assert cli("read", parted).rows == [{"p": "c", "n": 30}]


def test_a_repeated_commit_writes_nothing(cli: Cli, parted: str) -> None:
    arguments = ("write", parted, "-", "--commit-user", "me", "--identifier", "7", "--json")
    assert not cli(*arguments, stdin='{"p": "a", "n": 3}').json["duplicate"]
    assert cli(*arguments, stdin='{"p": "a", "n": 3}').json["duplicate"]
    assert len(cli("read", parted).lines) == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"k": "x"}', "line 1, column k: 'x' is not a value of type BIGINT"), ("nope", "line 1: not JSON"), ('{"zz": 1}', "no column 'zz'"),
        ('{"v": "x"}', "k is NOT NULL"), ('{"k": 1, "_kind": "?"}', "_kind '?'"), ('{"k": 2}\n{"k": 2, "d": "1.555"}', "line 2, column d"),
    ],
)  # fmt: skip
def test_bad_rows_are_named_and_change_nothing(
    cli: Cli, keyed: str, line: str, message: str, warehouse: Path
) -> None:
    before = sorted(warehouse.rglob("*"))
    answer = cli("write", keyed, "-", stdin=line)
    assert answer.code == 1
    assert message in answer.err
    assert answer.err.startswith("error: standard input: ")
    assert len(answer.err.splitlines()) == 1
    assert cli("read", keyed).lines == [ROW]
    assert [path for path in sorted(warehouse.rglob("*")) if path.is_file()] == [
        p for p in before if p.is_file()
    ]


def test_bad_files_are_named(cli: Cli, keyed: str, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing of the kind")
    (tmp_path / "bad.csv").write_text("k,zz\n1,2\n")
    (tmp_path / "short.csv").write_text("k,v\n1\n")
    (tmp_path / "number.csv").write_text("k\n1\nx\n")
    for name, message in {
        "none.jsonl": "does not exist", "bad.parquet": "cannot be read as parquet", "bad.csv": "no column 'zz'", "short.csv": "cannot be read as csv",
        "number.csv": "row 2, column k: 'x'", "rows.txt": "give --format",
    }.items():  # fmt: skip
        answer = cli("write", keyed, str(tmp_path / name))
        assert answer.code == 1
        assert message in answer.err
        assert name in answer.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("db.none",), "'db.none' does not exist"), (("none.t",), "databases: db"), (("t",), "DATABASE.TABLE"), (("db.t", "--snapshot", "9"), "the available snapshots are 1-1"),
        (("db.t", "--tag", "x"), "tag 'x'"), (("db.t", "--branch", "x"), "branch 'x'"), (("db.t", "--columns", "zz"), "'zz'"), (("db.t", "--where", "k ="), "value is missing"),
        (("db.t", "--timestamp", "soon"), "--timestamp 'soon'"), (("db.t", "--timestamp", "2001-01-01"), "at or before"), (("db.t", "--limit", "-1"), "--limit"),
        (("db.t", "--format", "xml"), "--format"), (("db./../t",), "must not"), (("../x.t",), "must not"), (("db.t", "--output", "/nowhere/x.csv"), "/nowhere/x.csv cannot be written"),
        (("db.t", "--snapshot", "1", "--tag", "x"), "exclude each other"),
    ],
)  # fmt: skip
def test_bad_reads_are_one_line(cli: Cli, keyed: str, arguments: tuple[str, ...], message: str) -> None:
    answer = cli("read", *arguments)
    assert answer.code == 1
    assert answer.out == ""
    assert message in answer.err
    assert len(answer.err.splitlines()) == 1


def test_null_and_empty_text_in_csv(cli: Cli, keyed: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('k,v,a\n2,,"[1,2]"\n3,"",\n')
    assert cli("write", keyed, str(tmp_path / "rows.csv")).code == 0
    rows = cli("read", keyed, "--where", "k > 1").rows
    assert [(row["v"], row["a"]) for row in rows] == [(None, [1, 2]), ("", None)]


def test_changes_are_streamed_and_read_by_interval(cli: Cli, keyed: str) -> None:
    cli("write", keyed, "-", stdin='{"k": 2, "v": "y"}\n{"_kind": "-D", "k": 1}')
    first = f'{{"_snapshot":1,{ROW[1:]}'
    deleted = '"_kind":"-D","k":1,"v":null,"d":null,"a":null}'
    assert cli("stream", keyed, "--from-snapshot", "1", "--max-snapshots", "1").lines == [first]
    assert f'{{"_snapshot":2,{deleted}' in cli("stream", keyed, "--from-snapshot", "2").lines
    assert cli("stream", keyed, "--where", "k = 2", "--columns", "v").lines == [
        '{"_snapshot":2,"_kind":"+I","v":"y"}'
    ]
    assert cli("read", keyed, "--incremental", "0..1", "--columns", "k").lines == ['{"_kind":"+I","k":1}']
    assert f"{{{deleted}" in cli("read", keyed, "--incremental", "1..2", "--mode", "delta").lines
    assert cli("read", keyed, "--incremental", "1..2", "--mode", "diff", "--columns", "k").lines == [
        '{"_kind":"+I","k":2}'
    ]
    delta = cli(
        "read", keyed, "--incremental", "1..2", "--mode", "delta", "--columns", "k", "--format", "csv"
    )
    assert sorted(delta.lines) == ['"+I","2"', '"-D","1"', '"rowkind","k"']
    assert cli("read", keyed, "--option", "scan.version=1").lines == [ROW]
    assert cli(
        "read", f"{keyed}$snapshots", "--columns", "snapshot_id", "--where", "snapshot_id > 1"
    ).lines == ['{"snapshot_id":2}']
    assert "snapshots 1 to 2 exist" in cli("read", keyed, "--incremental", "1..7").err


def test_a_column_makes_the_watermark(cli: Cli, keyed: str) -> None:
    assert cli("alter", keyed, "--add", "ts TIMESTAMP(3)").code == 0
    row = '{"k": 3, "ts": "2026-01-01 00:00:10"}'
    assert cli("write", keyed, "-", "--watermark-column", "ts - 4 s", stdin=row).code == 0
    assert "1767225606000" in cli("--json", "snapshots", keyed).out
    refused = cli("write", keyed, "-", "--watermark-column", "k", stdin=row)
    assert (refused.code, "'k' is no TIMESTAMP column" in refused.err) == (1, True)


def test_logs_are_streamed(cli: Cli, keyed: str) -> None:
    cli("write", keyed, "-", stdin='{"_kind": "-U", "k": 1}\n{"_kind": "+U", "k": 1}')
    log = cli("stream", f"{keyed}$audit_log", "--from-snapshot", "2", "--columns", "rowkind,k")
    assert log.lines[-1] == '{"_snapshot":2,"_kind":"+I","rowkind":"+U","k":1}'
    assert cli("stream", f"{keyed}$audit_log", "--follow", "0.01", "--max-snapshots", "1").code == 0
    assert "has no stream; audit_log, binlog, ro have one" in cli("stream", f"{keyed}$files").err
    refused = cli("stream", f"{keyed}$binlog", "--no-update-before")
    assert (refused.code, "its rows have no kind -U" in refused.err) == (1, True)
    replacing = cli("stream", keyed, "--from-snapshot", "2", "--no-update-before", "--columns", "k")
    assert replacing.lines == ['{"_snapshot":2,"_kind":"+U","k":1}']


def test_a_consumer_goes_on_where_it_was(cli: Cli, keyed: str) -> None:
    assert len(cli("stream", keyed, "--consumer", "etl").lines) == 1
    assert cli("stream", keyed, "--consumer", "etl").lines == []
    cli("write", keyed, "-", stdin='{"k": 2}')
    assert [row["k"] for row in cli("stream", keyed, "--consumer", "etl").rows] == [2]
    assert "next snapshot: 3" in cli("stream", keyed, "--consumer", "etl").err


def test_delete(cli: Cli, keyed: str) -> None:
    marked = {"columns": ["v INT"], "options": {"deletion-vectors.enabled": "true"}}
    cli("create", "db.a", "--schema", json.dumps(marked))
    cli("write", "db.a", "-", stdin='{"v": 1}\n{"v": 2}\n{"v": 3}')
    answer = cli("delete", "db.a", "--where", "v > 1", "--json").json
    assert answer == {"table": "db.a", "rows": 2, "snapshots": [2], "duplicate": False, "notes": []}
    assert cli("read", "db.a").rows == [{"v": 1}]
    assert "no such rows" in cli("delete", "db.a", "--where", "v = 7").out
    assert "1 row deleted in snapshot 2" in cli("delete", keyed, "--where", "k = 1").out
    assert cli("read", keyed).lines == []
    assert cli("delete", "db.a", "--where", "nope = 1").code == 1


EVOLVING = {
    "columns": ["k INT NOT NULL", "v STRING", "m MAP<STRING, INT>"],
    "options": {"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
}


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow"])
def test_update_columns(cli: Cli, form: str, tmp_path: Path) -> None:
    """What `read` prints of `$row_tracking` can be given back, changed; repeated under its name, once."""
    cli("create", "db.e", "--schema", json.dumps(EVOLVING))
    cli("write", "db.e", "-", stdin='{"k": 1, "v": "a", "m": [["x", 1]]}\n{"k": 2, "v": "b"}\n{"k": 3}')
    path = tmp_path / f"o.{form}"
    where = ("--columns", "_ROW_ID,v,m", "--where", "k = 1")
    assert cli("read", "db.e$row_tracking", *where, "--output", str(path)).code == 0
    cli("write", "db.e", "-", "--overwrite", "all", stdin='{"k": 7}\n{"k": 8, "v": "s"}')
    if form in ("jsonl", "csv"):
        path.write_text(path.read_text().replace(":0,", ":4,").replace('"0"', '"4"'))
    else:
        ids = cli("read", "db.e$row_tracking", "--columns", "_ROW_ID").rows
        assert [row["_ROW_ID"] for row in ids] == [3, 4]
        rows = pa.table({"_ROW_ID": [4], "v": ["a"], "m": pa.array([[("x", 1)]], pa.map_("string", "int32"))})
        if form == "parquet":
            pq.write_table(rows, path)
        else:
            with pa.ipc.new_stream(path, rows.schema) as out:
                out.write_table(rows)
    named = ("--commit-user", "etl", "--commit-identifier", "7")
    for again in (False, True):
        answer = cli("update-columns", "db.e", str(path), "--json", *named).json
        assert answer == {
            "table": "db.e", "rows": 1, "columns": ["v", "m"], "snapshots": [3], "duplicate": again, "notes": []
        }  # fmt: skip
    assert cli("read", "db.e").rows == [
        {"k": 7, "v": None, "m": None},
        {"k": 8, "v": "a", "m": [["x", 1]]},
    ]
    assert "had committed before" in cli("update-columns", "db.e", str(path), *named).out


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('{"_ROW_ID": 0, "v": "x"}\n{"_ROW_ID": 1}', "line 2: column v is missing"),
        ('{"_ROW_ID": 0, "w": "x"}', "line 1: no column 'w'; columns are _ROW_ID, k, v, m"),
        ('{"_ROW_ID": 0, "v": "x"}\n{"_ROW_ID": 1, "v": "x", "k": 2}', "line 2: no column 'k'; columns are"),
        ('{"_ROW_ID": 5, "v": "x"}', "db.e has no row with _ROW_ID 5"),
        ('{"v": "x"}', "the data must have _ROW_ID"),
        ('{"_ROW_ID": 0, "k": null}', "column k is NOT NULL"),
    ],
)
def test_update_columns_refuses(cli: Cli, lines: str, problem: str) -> None:
    cli("create", "db.e", "--schema", json.dumps(EVOLVING))
    cli("write", "db.e", "-", stdin='{"k": 1}\n{"k": 2}')
    found = cli("update-columns", "db.e", "-", stdin=lines)
    assert (found.code, problem in found.err) == (1, True), found.err
    assert "nothing to update" in cli("update-columns", "db.e", "-", stdin="\n").out
    assert len(cli("snapshots", "db.e", "--json").json) == 1
