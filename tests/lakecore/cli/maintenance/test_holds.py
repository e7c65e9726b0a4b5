"""Holds at the command line: exit codes, what is printed, and that other tables go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.cli.damage import damaged_table
from lakecore.cli.main import main
from lakecore.errors import CorruptDataError
from tests.support.lake import append_table, key_table, put


class Shell:
    """`lakecore` in a warehouse with the tables d.a and d.k."""

    def __init__(self, path: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.path = path / "wh"
        self._capture = capture
        catalog = load_catalog(str(self.path), create_warehouse=True, **{"local.fsync": "false"})
        self.table = key_table(catalog)
        put(self.table, *([{"k": n, "v": "x"}] for n in range(4)))
        put(append_table(catalog), *([{"v": n, "p": "a"}] for n in range(4)))

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._capture.readouterr()
        code = main(["--warehouse", str(self.path), *arguments])
        out = self._capture.readouterr()
        return code, out.out, out.err

    def json(self, *arguments: str, code: int = 0) -> Any:
        found, out, err = self("--json", *arguments)
        assert found == code, err
        return json.loads(out)


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, capsys)


EXPIRE = ("expire-snapshots", "--retain-max", "1", "--retain-min", "1")


def test_a_table_is_held_by_a_person_and_released(shell: Shell) -> None:
    assert shell("hold", "d.k")[0] == 1, "a reason must be given"
    code, out, _ = shell("hold", "d.k", "--reason", "an audit\x1b[2J", "--user", "ann")
    assert (code, "ann: an audit\\x1b[2J" in out) == (0, True)
    code, out, _ = shell(*EXPIRE, "d.*")
    assert (code, "on hold" in out, "lakecore release d.k" in out) == (2, True, True)
    reports = shell.json(*EXPIRE, "d.*", code=2)
    assert [(one["table"], bool(one["on_hold"]), one["error"]) for one in reports] == [
        ("d.a", False, None),
        ("d.k", True, None),
    ]
    assert load_catalog(str(shell.path)).load_table("d.a")._stores.snapshots.list_ids() == (4,)
    [hold] = shell.json("holds")
    assert (hold["table"], hold["by"], hold["ends_with"], hold["automatic"]) == (
        "d.k",
        "ann",
        "release",
        False,
    )
    assert shell.json("holds", "other.*") == []
    assert "an audit" in shell("holds")[1]
    assert [one["by"] for one in shell.json("describe", "d.k")["holds"]] == ["ann"]
    assert "on hold" in shell("describe", "d.k")[1]
    assert shell.json("describe", "d.a")["holds"] == []
    assert "an audit" in shell("runs", "d.k")[2]
    assert "on hold" in " ".join(shell.json("why", "d.k")[0]["names"])
    assert shell("fsck", "--deep", "d.k")[0] == 0
    assert len(shell.json("holds")) == 1, "no check ends it"
    assert shell.json("release", "d.k", "--dry-run")[0]["notes"]
    assert len(shell.json("holds")) == 1
    assert shell("release", "d.k", "--user", "bob")[0] == 0
    assert [one["run"] for one in shell.json("runs", "d.k") if one["parameters"].get("user") == "bob"]
    assert shell.json("release", "d.k")[0]["nothing_to_do"]
    assert shell(*EXPIRE, "d.k")[0] == 0
    assert shell("release", "d.typo")[0] == 1


def test_damage_that_fsck_finds_holds_the_table_until_fsck_is_clean(shell: Shell) -> None:
    lost = next((Path(shell.table.path) / "bucket-0").iterdir())
    data = lost.read_bytes()
    lost.unlink()
    assert shell("fsck", "--no-hold", "d.k")[0] == 2
    assert shell.json("holds") == []
    code, out, _ = shell("fsck", "d.*")
    assert (code, "d.k: the table is on hold now" in out, "d.a: the table" in out) == (2, True, False)
    assert "stays on hold" in shell.json("fsck", "d.k", code=2)[0]["holds"][0]
    code, out, err = shell(*EXPIRE, "d.k", "--dry-run")
    assert (code, "on hold" in out + err) == (2, True)
    assert shell(*EXPIRE, "d.k")[0] == 2
    assert len(load_catalog(str(shell.path)).load_table("d.k")._stores.snapshots.list_ids()) == 4
    lost.write_bytes(data)
    assert "still on hold" in shell.json("fsck", "--no-data", "d.k")[0]["holds"][0]
    assert "the hold has ended" in shell("fsck", "d.k")[1]
    assert shell(*EXPIRE, "d.k")[0] == 0
    assert load_catalog(str(shell.path)).load_table("d.k")._stores.snapshots.list_ids() == (4,)


def test_a_failure_says_that_the_table_is_on_hold(shell: Shell) -> None:
    newest = Path(shell.table._stores.paths.snapshot(4))
    newest.write_bytes(b"{half")
    code, out, _ = shell("compact", "d.k", "--engine", "local")
    assert (code, "the table is on hold now" in out) == (1, True)
    assert shell("compact-database", "--engine", "local", "--dry-run")[0] == 1
    assert len(shell.json("holds")) == 1, "a dry run places none"
    assert shell(*EXPIRE, "d.k")[0] == 2


@pytest.mark.parametrize(
    ("command", "broken"),
    [
        pytest.param(("read", "d.k"), "bucket-0/data-*", id="read"),
        pytest.param(
            ("read", "d.k", "--format", "csv", "--limit", "9"), "manifest/manifest-*", id="read-metadata"
        ),
        pytest.param(("stream", "d.k"), "bucket-0/data-*", id="stream"),
        pytest.param(("files", "d.k"), "manifest/manifest-*", id="files"),
        pytest.param(("describe", "d.k"), "snapshot/snapshot-4", id="describe"),
        pytest.param(("delete", "d.k", "--where", "k = 1"), "bucket-0/data-*", id="delete"),
    ],
)
def test_a_command_that_meets_damage_puts_the_table_on_hold(
    command: tuple[str, ...], broken: str, shell: Shell
) -> None:
    for path in Path(shell.table.path).glob(broken):
        path.write_bytes(b"damaged")
    code, _, err = shell(*command)
    assert (code, "the table is on hold now" in err) == (1, True), err
    [hold] = shell.json("holds")
    assert (hold["table"], hold["job"], hold["automatic"]) == ("d.k", command[0], True)
    assert shell(*EXPIRE, "d.k")[0] == 2
    assert Path(shell.table.path, "snapshot", "snapshot-1").exists()


def test_a_reader_of_the_library_places_no_hold(shell: Shell) -> None:
    for path in Path(shell.table.path).glob("bucket-0/data-*"):
        path.write_bytes(b"damaged")
    with pytest.raises(CorruptDataError):
        load_catalog(str(shell.path)).load_table("d.k").scan().to_arrow()
    assert shell.json("holds") == []


def test_who_may_not_write_is_told_that_there_is_no_hold(shell: Shell) -> None:
    for path in Path(shell.table.path).glob("bucket-0/data-*"):
        path.write_bytes(b"damaged")
    (shell.path / ".lakecore").write_text("no directory")
    code, _, err = shell("read", "d.k")
    assert (code, "could NOT be put on hold" in err) == (1, True), err


def test_what_is_wrong_with_a_request_is_no_damage(shell: Shell) -> None:
    assert shell("read", "d.k", "--where", "nothing = 1")[0] == 1
    assert shell("read", "d.missing")[0] == 1
    assert shell.json("holds") == []


@pytest.mark.parametrize("name", ["a\x1b[2J.json", "a\nb.json", "\u202e.json", "..json", " "], ids=ascii)
def test_a_record_of_any_name_is_released(name: str, shell: Shell) -> None:
    folder = shell.path / ".lakecore" / "holds" / "d.k"
    folder.mkdir(parents=True)
    (folder / name).write_text("forged")
    assert shell(*EXPIRE, "d.k")[0] == 2
    code, out, _ = shell("release", "d.k")
    assert (code, "\x1b" in out) == (0, False)
    assert list(folder.iterdir()) == []
    assert shell(*EXPIRE, "d.k")[0] == 0


@pytest.mark.parametrize(
    ("path", "table"),
    [
        ("/wh/d.db/t/bucket-0/a", "d.t"),
        ("/wh/d.db/t", None),
        ("/wh/d/t/a", None),
        ("/wh/.db/t/a", None),
        ("/elsewhere/d.db/t/a", None),
        ("/wh/.lakecore/runs/x", None),
    ],
)
def test_the_table_of_a_damaged_file(path: str, table: str | None) -> None:
    assert damaged_table(path, "/wh/") == damaged_table(path, "/wh") == table
