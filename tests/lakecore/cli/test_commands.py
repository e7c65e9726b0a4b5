from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lakecore.cli import output
from tests.lakecore.cli.conftest import SCHEMA, Cli
from tests.support.golden import GoldenTable


def test_lists(cli: Cli, keyed: str, parted: str) -> None:
    assert cli("databases", "--json").json == [{"database": "db"}]
    assert [row["name"] for row in cli("--json", "tables").json] == [parted, keyed]
    assert [row["table"] for row in cli("tables", "db", "--json").json] == ["p", "t"]
    assert [row["table"] for row in cli("tables", "--like", "t%", "--json").json] == ["t"]
    assert [row["table"] for row in cli("tables", "--kinds", "--like", "p", "--json").json] == ["p"]
    assert cli("tables", "--type", "object-table", "--json").json == []
    assert [row["table"] for row in cli("tables", "--type", "table", "--json").json] == ["p", "t"]
    page = cli("databases", "--limit", "1", "--json")
    assert (page.json, page.err) == ([{"database": "db"}], "")
    assert cli("databases", "--limit", "1", "--page-token", "db", "--json").json == []
    assert "give --limit" in cli("databases", "--page-token", "db").err
    page = cli("tables", "db", "--limit", "1", "--json")
    assert [row["table"] for row in page.json] == ["p"]
    assert page.err.strip() == "the next page: --page-token p"
    page = cli("tables", "db", "--limit", "1", "--page-token", "p", "--json")
    assert ([row["table"] for row in page.json], page.err) == (["t"], "")
    assert "give --limit" in cli("tables", "db", "--page-token", "p").err
    assert "give a database" in cli("tables", "--limit", "1").err
    assert "use one of table" in cli("tables", "--type", "view").err
    assert "give one of them" in cli("tables", "--type", "table", "--kinds").err
    assert "db" in cli("databases").out
    assert cli("tables", "none").code == 1


def test_describe(cli: Cli, keyed: str) -> None:
    found = cli("describe", keyed, "--json").json
    assert (found["primary_keys"], found["bucket_mode"], found["snapshot"]["id"]) == (["k"], "fixed", 1)
    assert found["fields"][3]["type"] == {"type": "ARRAY", "element": "INT"}
    assert "ARRAY<INT>" in cli("describe", keyed).out


def test_snapshots_and_files(cli: Cli, keyed: str, parted: str) -> None:
    (snapshot,) = cli("snapshots", keyed, "--json").json
    assert (snapshot["id"], snapshot["kind"], snapshot["records"]) == (1, "APPEND", 1)
    (file,) = cli("files", keyed, "--json").json
    assert (file["bucket"], file["level"], file["rows"], file["min_key"]) == (0, 0, 1, "k=1")
    assert [row["partition"] for row in cli("files", parted, "--where", "p=b", "--json").json] == ["p=b"]
    assert cli("files", parted, "--where", "n=1").code == 1
    assert "2 files" in cli("files", parted).err


@pytest.mark.parametrize("longest", [3, 600], ids=["short", "long"])
def test_the_list_of_files_for_people_has_the_values_of_the_json(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    """Keys of some hundred bytes are decoded with their files; wide characters take two places."""
    definition = {
        "columns": ["p STRING NOT NULL", "k STRING NOT NULL", "n INT"],
        "partitionKeys": ["p"],
        "primaryKeys": ["p", "k"],
        "options": {"bucket": "1", "write-only": "true"},
    }
    assert cli("create", "d.wide", "--schema", json.dumps(definition)).code == 0
    for part, key in (("a", "k"), ("漢字", "\t%s" + "é" * longest), ("b", "%d")):
        row = json.dumps({"p": part, "k": key, "n": 1})
        assert cli("write", "d.wide", "-", stdin=row).code == 0
    stored = cli("files", "d.wide", "--json").json
    assert {one["delete_rows"] for one in stored} == {0}
    monkeypatch.setattr(output, "_MANY_ROWS", 1)
    lines = cli("files", "d.wide").out.splitlines()[2:]
    for line, one in zip(lines, stored, strict=True):
        shown = [one["partition"], one["bucket"], one["level"], one["file"], output.size_text(one["size"])]
        shown += [one["rows"], one["delete_rows"], one["min_key"], one["max_key"], one["schema_id"]]
        expected = [" ".join(output.printable(value).split()) for value in shown]
        assert " ".join(line.split()) == " ".join(expected)


def test_tables_of_many_rows_have_a_line_for_each_row(
    cli: Cli, parted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values are as in the table that fits a terminal, nothing is folded, and control characters are escaped."""
    few = cli("files", parted).out
    monkeypatch.setattr(output, "_MANY_ROWS", 1)
    many = cli("files", parted)
    lines = many.out.splitlines()
    assert lines[0].split() == few.split()[:10]
    assert len(lines) == 2 + 2
    assert set(lines[1]) == {" ", "-"}
    assert [line.split()[0] for line in lines[2:]] == ["p=a", "p=b"]
    listed = cli("files", parted, "--json")
    assert len(listed.out.splitlines()) == 2 + 2
    names = {row["file"] for row in listed.json}
    assert {line.split()[3] for line in lines[2:]} == names
    rows = [{"name": "ü漢", "n": 1}, {"name": "\x1b[2J", "n": 1234, "note": "x"}]
    later = [{"name": "longer than", "n": 5, "note": "y"}]
    assert list(output._plain_lines(["name", "n", "note"], rows, later)) == [
        " name        n  note",
        " -------  ----  ----",
        " ü漢         1",
        " \\x1b[2J  1234  x",
        " longer than     5  y",
    ]


def test_a_table_without_snapshots(cli: Cli) -> None:
    cli("create", "db.empty", "--schema", json.dumps(SCHEMA))
    for command in ("describe", "snapshots", "files", "read"):
        assert cli(command, "db.empty").code == 0


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "not JSON"), ("nowhere.json", "does not exist"), ('{"columns": ["k FOO"]}', "FOO"), ('{"columns": []}', "columns"),
        ('{"columns": ["k INT"], "primaryKeys": ["z"]}', "'z'"), ('{"columns": ["k INT"], "zz": 1}', "'zz'"),
        ('{"columns": ["k INT"], "options": {"bucket": "x"}}', "bucket='x'"),
    ],
)  # fmt: skip
def test_create_names_what_is_wrong(cli: Cli, warehouse: Path, schema: str, message: str) -> None:
    answer = cli("create", "db.t", "--schema", schema)
    assert answer.code == 1
    assert message in answer.err
    assert not warehouse.exists() or not list(warehouse.rglob("schema-*"))


def test_create_once(cli: Cli, keyed: str, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    assert cli("create", keyed, "--schema", str(path)).code == 1
    assert cli("create", "db.other", "--schema", str(path)).code == 0
    for name in ("../x.t", "db./t", "db...", "db.a\\b", "t"):
        assert cli("create", name, "--schema", str(path)).code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nope",), "nope"), (("read",), "DB.TABLE"), (("read", "db.t", "--nope"), "--nope"), (("compact", "db.t", "--engine", "x"), "--engine"),
        (("compact", "db.t", "--until", "soon"), "until 'soon'"), (("compact", "zz*.t"), "no table matches"), (("compact", "*"), "DATABASE.TABLE"),
        (("compact", "db.t", "--engine", "local", "--master", "local[2]"), "--master"), (("compact", "db.t", "--option", "x"), "key=value"),
    ],
)  # fmt: skip
def test_usage_errors_are_one_line_and_exit_1(
    cli: Cli, keyed: str, arguments: tuple[str, ...], message: str
) -> None:
    answer = cli(*arguments)
    assert answer.code == 1
    assert message in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("drop", "drop-table"),
        ("create-table", "Did you mean create?"),
        ("fsk", "fsck"),
        ("expire", "expire-snapshots"),
        ("qqqq", None),
    ],
)
def test_a_command_that_does_not_exist_has_names_like_it(cli: Cli, command: str, names: str | None) -> None:
    ended = cli(command, "d.t")
    assert (ended.code, f"No such command '{command}'" in ended.err) == (1, True)
    assert ("Did you mean" in ended.err, names is None or names in ended.err) == (names is not None, True)


def test_create_says_whether_the_table_is_new(cli: Cli) -> None:
    assert cli("create", "d.t", "--schema", json.dumps(SCHEMA)).out.startswith("created d.t at ")
    again = ("create", "d.t", "--schema", json.dumps(SCHEMA), "--if-not-exists")
    assert "there is d.t at " in cli(*again).out
    assert cli(*again, "--json").json["created"] is False


def test_where_the_warehouse_comes_from(
    cli: Cli, keyed: str, warehouse: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert cli("tables", warehouse=None).code == 1
    assert "does not exist" in cli("tables", warehouse=tmp_path / "none").err
    monkeypatch.setenv("LAKECORE_WAREHOUSE", str(warehouse))
    assert cli("tables", warehouse=None).code == 0
    monkeypatch.delenv("LAKECORE_WAREHOUSE")
    (tmp_path / "lakecore.toml").write_text(f'[catalogs.mine]\nwarehouse = "{warehouse}"\n')
    monkeypatch.chdir(tmp_path)
    assert cli("tables", "--catalog", "mine", warehouse=None).code == 0
    assert cli("--catalog=mine", "tables", warehouse=None).code == 0
    assert cli("--warehouse", "lake", "tables", warehouse=None).code == 0
    assert "'other'" in cli("--catalog", "other", "tables", warehouse=None).err
    assert "exclude each other" in cli("--catalog", "mine", "tables").err


def test_help_and_version(cli: Cli) -> None:
    assert "compact" in cli("--help").out
    assert "--strategy" in cli("compact", "--help").out
    assert cli("--version").out.startswith("lakecore ")


def test_compact(cli: Cli, golden: Callable[[str], GoldenTable], warehouse: Path) -> None:
    for name in ("g1.a_pk_seq", "g1.a_append_unaware", "g1.a_pk_agg"):
        table = golden(name)
        shutil.copytree(table.path, warehouse / "g1.db" / table.table)
    before = cli("read", "g1.a_pk_seq").rows
    planned = cli("compact", "g1.*", "--engine", "local", "--dry-run", "--json", "--strategy", "full")
    assert [report["snapshot"] for report in planned.json] == [None] * 3
    answer = cli("compact", "g1.*", "g1.none", "--engine", "local", "--json")
    assert answer.code == 1
    reports = {report["table"]: report for report in answer.json}
    assert list(reports) == ["g1.a_append_unaware", "g1.a_pk_agg", "g1.a_pk_seq", "g1.none"]
    done = reports["g1.a_pk_seq"]
    wanted = {
        "table",
        "seconds",
        "rows_in",
        "rows_out",
        "files_in",
        "files_out",
        "snapshot",
        "engine",
        "proof",
        "error",
    }
    assert wanted <= done.keys()
    assert done["error"] is None
    assert (done["engine"], done["files_in"] > done["files_out"]) == ("local", True)
    assert reports["g1.a_pk_agg"]["error"] is None
    assert "does not exist" in reports["g1.none"]["error"]
    assert cli("read", "g1.a_pk_seq").rows == before
    again = cli("compact", "g1.a_pk_seq", "--engine", "local")
    assert again.code == 0
    assert "nothing to do" in again.out


def test_fsck(cli: Cli, keyed: str, parted: str, warehouse: Path) -> None:
    clean = cli("fsck", "db.*", "--json")
    assert clean.code == 0
    assert [one["findings"] for one in clean.json] == [[], []]
    (data,) = (warehouse / "db.db" / "t").rglob("data-*.parquet")
    data.write_bytes(data.read_bytes()[:-40])
    damaged = cli("fsck", keyed, "--json")
    assert damaged.code == 2
    assert damaged.json[0]["findings"][0]["damage"]
    assert "damaged" in cli("fsck", keyed).out
    assert cli("fsck", keyed, "db.none").code == 1
    (warehouse / "db.db" / "t" / "schema" / "schema-0").write_text("{")
    assert cli("fsck", keyed, "--json").json[0]["findings"][0]["kind"] == "schema"


def test_control_characters_do_not_reach_the_terminal(cli: Cli, keyed: str) -> None:
    cli("write", keyed, "-", stdin=json.dumps({"k": 5, "v": "\x1b[31mred\x07"}))
    assert "\x1b" not in cli("read", keyed, "--format", "table").out


def test_alter_changes_columns_and_options(cli: Cli) -> None:
    schema = {
        "columns": ["k INT", "v STRING", "r ROW<a INT>"],
        "primaryKeys": ["k"],
        "options": {"bucket": "1"},
    }
    assert cli("create", "d.t", "--schema", json.dumps(schema)).code == 0
    answer = cli(
        "alter", "d.t", "--set", "write-only=true", "--drop", "v", "--rename", "r=s", "--add", "n INT after k",
        "--add", "s.b STRING", "--type", "s.a BIGINT", "--comment", "n=a number", "--default", "n=7", "--json",
    )  # fmt: skip
    assert answer.json == {"table": "d.t", "schema_id": 1}
    described = cli("describe", "d.t").out
    for text in ("write-only", "ROW<a BIGINT, b STRING>", "a number"):
        assert text in described
    swapped = '[{"op": "rename", "name": "n", "to": "m"}, {"op": "add", "name": "n", "type": "DATE"}]'
    assert cli("alter", "d.t", "--changes", swapped).out == "altered d.t: schema 2\n"
    refused = cli("alter", "d.t", "--drop", "k")
    assert (refused.code, "primary key" in refused.err) == (1, True)
    assert "no change was specified" in cli("alter", "d.t").err


def test_rewrite_file_index(cli: Cli, keyed: str) -> None:
    arguments = ("rewrite-file-index", keyed, "--engine", "local", "--option", "file-index.bitmap.columns=v")
    planned = cli(*arguments, "--dry-run", "--json").json[0]
    assert (planned["planned"], planned["snapshot"]) == (1, None)
    assert planned["coverage"][0] | {"files_lacking": 1, "rows_lacking": 1} == planned["coverage"][0]
    shown = cli(*arguments)
    assert shown.code == 0
    assert "rewritten" in shown.out
    assert any("bitmap" in line and line.rstrip().endswith("yes") for line in shown.lines)
    assert cli(*arguments, "--json").json[0]["nothing_to_do"]
    failed = cli("rewrite-file-index", "db.*", "db.none", "--engine", "local", "--json")
    assert failed.code == 1
    assert [report["error"] is None for report in failed.json] == [True, False]


def test_every_command_warns_of_rows_that_wait_for_a_compaction(cli: Cli) -> None:
    options = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
    schema = {"columns": ["k INT"], "primaryKeys": ["k"], "options": options}
    answers = [
        cli("create", "d.t", "--schema", json.dumps(schema)),
        cli("write", "d.t", "-", "--no-compact", stdin='{"k": 1}'),
        cli("describe", "d.t"),
    ]
    assert all("warning: d.t: new rows have no bucket" in answer.err for answer in answers)
    assert len(cli("describe", "d.t", "--json").json["warnings"]) == 1
    assert "warning: new rows have no bucket" in cli("compact", "d.t", "--engine", "local").out
    assert cli("read", "d.t").rows == [{"k": 1}]
