"""Every maintenance command once, on a table that Java Paimon wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakecore.cli.main import main
from tests.lakecore.cli.conftest import Cli
from tests.support.golden import GoldenTable

TABLE = "g1.a_append_part"


def run(warehouse: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The JSON of a command that goes well."""
    assert main(["--warehouse", str(warehouse), "--json", *arguments]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_a_life_of_maintenance(
    tmp_path: Path, golden: Callable[[str], GoldenTable], capsys: pytest.CaptureFixture[str]
) -> None:
    golden(TABLE).copy_to(tmp_path)

    def command(name: str, *arguments: str, table: str | None = TABLE) -> dict[str, Any]:
        (report,) = run(tmp_path, capsys, name, *([table] if table else []), *arguments)
        assert report["error"] is None
        return dict(report)

    ids = [row["id"] for row in run(tmp_path, capsys, "snapshots", TABLE)]
    first, last = str(ids[0]), str(ids[-1])
    assert command("create-tag", "--tag", "a", "--snapshot", first)["snapshot"] == ids[0]
    assert command("create-tag", "--tag", "a", "--snapshot", first)["nothing_to_do"]
    automatic = ("--option", "tag.automatic-creation=process-time", "--dry-run")
    assert command("trigger-tag-automatic-creation", *automatic)["names"]
    asked = ("--from", "2020-01-01", "--to", "2020-01-02", "--name", "eod-{period}", "--backfill")
    (note,) = command("create-batch-tags", *asked)["notes"]
    assert note.startswith("not created, because there was nothing to tag: eod-2020-01-01, eod-2020-01-02")
    command("rename-tag", "--tag", "a", "--target-tag", "b")
    command("create-branch", "--branch", "side", "--tag", "b")
    command("rename-branch", "--branch", "side", "--target-branch", "other")
    command("reset-consumer", "--consumer-id", "c", "--next-snapshot", first)
    limits = ("--retain-max", "1", "--retain-min", "1")
    held = command("expire-snapshots", *limits, "--dry-run")
    assert (held["blocker"], held["snapshots"]) == (f"consumer c still needs snapshot {first}", [])
    assert "consumer c still needs" in " ".join(command("why")["names"])
    command("clear-consumers", "--including-consumers", "c")
    planned = command("expire-snapshots", *limits, "--dry-run")
    done = command("expire-snapshots", *limits, "--quarantine")
    assert (done["files"], done["bytes"]) == (planned["files"], planned["bytes"])
    assert command("undo", done["run"], table=None)["files"] == done["files"]
    assert command("expire-snapshots", *limits)["snapshots"] == ids[:-1]
    command("replace-tag", "--tag", "b", "--snapshot", last)
    command("delete-branch", "--branch", "other")
    command("delete-tag", "--tag", "b")
    command("expire-tags", "--older-than", "2020-01-01")
    command("expire-changelogs")
    command("remove-orphan-files", "--dry-run")
    command("mark-partition-done", "--partition", _partition(tmp_path, capsys))
    command("drop-partition", "--partition", _partition(tmp_path, capsys))
    command("expire-partitions", "--expiration-time", "99999 d", "--expire-strategy", "update-time")
    command("expire-consumers", "--expiration-time", "1 d")
    command("compact-manifest")
    command("rollback", "--snapshot", last)
    command("rollback-to-as-latest", "--snapshot", last)
    command("repair-hints")
    assert command("remove-unexisting-files", "--dry-run")["nothing_to_do"]
    (tmp_path / "g1.db" / TABLE.partition(".")[2] / "snapshot" / "LATEST").write_text("1")
    plan = str(tmp_path / "plan.json")
    assert main(["--warehouse", str(tmp_path), "fsck", TABLE, "--plan", plan]) == 2
    assert "repair-hints" in capsys.readouterr().out
    assert "1 of 1" in command("apply-repair-plan", "--plan", plan, "--all", "--dry-run")["notes"][0]
    assert command("apply-repair-plan", "--plan", plan, "--step", "1")["names"] == ["1 repair-hints"]
    assert command("repair", "--plan", plan, "--all")["nothing_to_do"], "the old name"
    command("repair-earliest-snapshot", "--snapshot-id", last)
    assert command("remove-unexisting-manifests", "--accept-rows", "0")["nothing_to_do"]
    planned = command("purge-files", "--dry-run")
    emptied = command("purge-files")
    assert (emptied["files"], emptied["snapshots"]) == (planned["files"], planned["snapshots"])
    assert command("undo", emptied["run"], table=None)["files"] == emptied["files"]
    run(tmp_path, capsys, "purge-quarantine", "--quarantine-ttl", "0 s")
    states = {row["state"] for row in run(tmp_path, capsys, "runs", TABLE)}
    assert states <= {"done", "purged", "undone", "quarantined"}
    assert main(["--warehouse", str(tmp_path), "read", TABLE]) == 0


def _partition(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> str:
    return str(run(warehouse, capsys, "files", TABLE)[0]["partition"])


def test_a_failed_table_is_an_error_and_does_not_stop_the_others(
    tmp_path: Path, golden: Callable[[str], GoldenTable], capsys: pytest.CaptureFixture[str]
) -> None:
    golden(TABLE).copy_to(tmp_path)
    code = main(
        [
            "--warehouse",
            str(tmp_path),
            "--json",
            "expire-snapshots",
            "g1.missing",
            TABLE,
            "--retain-max",
            "10",
        ]
    )
    missing, found = json.loads(capsys.readouterr().out)
    assert (code, found["error"]) == (1, None)
    assert "g1.missing" in missing["error"]


NAMED = {
    "compact": ("--strategy", "full", "--engine", "local"),
    "rewrite-file-index": ("--option", "file-index.bloom-filter.columns=n", "--engine", "local"),
    "analyze": ("--columns", "all"),
    "compact-manifest": (),
    "rollback-to-as-latest": ("--snapshot", "1"),
    "merge-branch": ("--source-branch", "side"),
    "drop-partition": ("--partition", "p=a"),
    "expire-partitions": ("--expiration-time", "30 d", "--timestamp-formatter", "yyyy-MM-dd"),
}


GO_ON = ("compact", "rewrite-file-index", "expire-partitions")
"""Runs of many commits: repeated, they do what is left, or has come since."""


@pytest.mark.parametrize("name", NAMED)
def test_a_run_that_is_repeated_under_its_name_commits_once(cli: Cli, parted: str, name: str) -> None:
    rows = '{"p": "a", "n": 7}\n{"p": "2020-01-01", "n": 8}'

    def command(number: int) -> Any:
        asked = (*NAMED[name], "--commit-user", "nightly", "--commit-identifier", str(number), "--json")
        (report,) = cli(name, parted, *asked).json
        assert report["error"] is None
        return report["snapshot"]

    def snapshots() -> int:
        return len(cli("snapshots", parted).lines)

    assert cli("write", parted, "-", stdin=rows).code == 0
    if name == "merge-branch":
        assert cli("create-tag", parted, "--tag", "t").code == 0
        assert cli("create-branch", parted, "--branch", "side", "--tag", "t").code == 0
        assert cli("write", f"{parted}$branch_side", "-", stdin=rows).code == 0
    made = command(20)
    assert made is not None
    if name not in GO_ON:
        assert cli("write", parted, "-", stdin=rows).code == 0
    before = snapshots()
    assert command(20) in (made, None if name == "expire-partitions" else made)
    assert snapshots() == before
    half = cli(name, parted, *NAMED[name], "--commit-user", "nightly")
    assert (half.code, "--commit-identifier" in half.err) == (1, True)
