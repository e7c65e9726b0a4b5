"""Chores over globs: tables that another chore holds, waiting for them, and errors beside JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.clock import SystemClock
from lakecore.maintain.lease.lease import LeaseTimes, leased
from tests.lakecore.cli.conftest import Cli

Held = Callable[[int], None]


@pytest.fixture
def shop(cli: Cli) -> None:
    """Two tables with a snapshot each."""
    for name in ("shop.a", "shop.b"):
        assert cli("create", name, "--schema", json.dumps({"columns": ["n INT"]})).code == 0
        assert cli("write", name, "-", "--no-compact", stdin='{"n": 1}').code == 0


@contextmanager
def held(warehouse: Path, table: str) -> Iterator[None]:
    catalog = load_catalog(warehouse)
    with leased(catalog.file_io, catalog.warehouse, table, "nightly 1", SystemClock(), LeaseTimes(60_000)):
        yield


@pytest.mark.usefixtures("shop")
def test_a_tag_for_every_table_of_a_glob(cli: Cli) -> None:
    reports = cli("create-tag", "shop.*", "--tag", "eod", "--json").json
    assert [(one["table"], one["names"], one["error"]) for one in reports] == [
        ("shop.a", ["eod"], None),
        ("shop.b", ["eod"], None),
    ]
    assert cli("rename-tag", "shop.*", "--tag", "eod", "--target-tag", "old").code == 0
    assert cli("rollback-to", "shop.?", "--tag", "old").code == 0
    assert cli("delete-tag", "shop.b", "shop.a", "--tag", "old").code == 0
    assert cli("read", "shop.a$tags").rows == []
    assert cli("create-branch", "shop.*", "--branch", "side").code == 0
    assert "no table matches" in cli("create-tag", "nowhere.*", "--tag", "x").err


@pytest.mark.usefixtures("shop")
def test_a_table_that_is_held_fails_alone(cli: Cli, warehouse: Path) -> None:
    with held(warehouse, "shop.a"):
        answer = cli("create-tag", "shop.*", "--tag", "eod", "--json")
        waited = cli("expire-snapshots", "shop.*", "--wait", "200 ms", "--json")
        passed_over = cli("expire-snapshots", "shop.*", "--json")
        compacted = cli("compact", "shop.*", "--engine", "local", "--json", "--wait", "1 ms")
    assert (answer.code, waited.json[0]["job"]) == (1, "expire-snapshots")
    assert [(one["error_class"], one["names"]) for one in answer.json] == [("BusyError", []), (None, ["eod"])]
    assert answer.err.startswith("error: shop.a: shop.a is being maintained by nightly 1")
    assert answer.err.count("\n") == 1
    assert waited.code == 1
    assert "the job waited 0.2 s for the lease" in waited.err
    assert (passed_over.code, passed_over.err) == (0, "")
    assert ["maintained" in one["skipped"] for one in passed_over.json] == [True, False]
    assert compacted.code == 0, "nothing to do takes no lease"
    assert cli("read", "shop.a$tags").rows == []


@pytest.mark.usefixtures("shop")
def test_who_waits_goes_on_as_soon_as_the_table_is_free(cli: Cli, warehouse: Path) -> None:
    record = {"owner": "other-machine 1", "until_ms": SystemClock().now_ms() + 1500}
    path = warehouse / ".lakecore" / "leases" / "shop.a" / "1"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))
    assert cli("create-tag", "shop.a", "--tag", "eod").code == 1
    done = cli("create-tag", "shop.*", "--tag", "eod", "--wait", "1 min", "--json")
    assert (done.code, [one["names"] for one in done.json]) == (0, [["eod"], ["eod"]])


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    "command",
    [
        ("expire-snapshots", "shop.a", "shop.none"),
        ("compact", "shop.none", "--engine", "local"),
        ("fsck", "shop.none", "shop.nil"),
        ("rewrite-file-index", "shop.none", "--engine", "local"),
    ],
)
def test_json_has_the_first_error_on_standard_error_too(cli: Cli, command: tuple[str, ...]) -> None:
    answer = cli(*command, "--json")
    assert answer.code == 1
    (failed, *_) = [one for one in answer.json if one["error"] is not None]
    assert answer.err.splitlines()[0].startswith(f"error: shop.none: {failed['error'][:40]}")
    assert len(answer.err.splitlines()) == 1
    assert ("and 1 more" in answer.err) == (command[0] == "fsck")


def test_times_that_are_none_are_refused(cli: Cli, keyed: str) -> None:
    for option in ("--wait", "--lease"):
        answer = cli("create-tag", keyed, "--tag", "x", option, "soon")
        assert (answer.code, f"{option} 'soon': this is not a duration" in answer.err) == (1, True)
    assert cli("create-tag", keyed, "--tag", "x", "--lease", "0", "--wait", "1 min").code == 0
    assert "at most a day" in cli("create-tag", keyed, "--tag", "x", "--lease", "2 d").out


def test_a_rollback_to_the_latest_says_nothing_of_a_quarantine(cli: Cli, keyed: str) -> None:
    (latest,) = [row["id"] for row in cli("snapshots", keyed, "--json").json][-1:]
    said = cli("rollback-to", keyed, "--snapshot", str(latest))
    assert (said.code, "nothing to do" in said.out) == (0, True)
    assert "quarantine" not in said.out + said.err
    assert "undo" not in said.out + said.err
    (report,) = cli("rollback-to", keyed, "--snapshot", str(latest), "--json").json
    assert (report["quarantined"], report["files"], report["nothing_to_do"]) == (False, 0, True)
    assert cli("write", keyed, "-", "--no-compact", stdin='{"k": 9}').code == 0
    assert "lakecore undo" in cli("rollback-to", keyed, "--snapshot", str(latest)).out


def test_fsck_says_how_many_files_are_too_young(cli: Cli, keyed: str, warehouse: Path) -> None:
    (warehouse / "db.db" / "t" / "bucket-0" / "data-in-flight-0.parquet").write_bytes(b"1234")
    said = cli("fsck", keyed)
    assert (said.code, "1 file that nobody refers to is too young to be called lost (4 B" in said.out) == (
        0,
        True,
    )
    found = cli("fsck", keyed, "--older-than", "2999-01-01T00:00:00Z", "--json")
    assert (found.code, [one["kind"] for one in found.json[0]["findings"]]) == (2, ["orphan"])


@pytest.mark.usefixtures("shop")
def test_a_table_that_lost_its_schema_fails_under_its_name(cli: Cli, warehouse: Path) -> None:
    (warehouse / "shop.db" / "a" / "schema" / "schema-0").unlink()
    for command in (["compact", "shop.*", "--engine", "local"], ["compact-database", "--engine", "local"]):
        answer = cli(*command, "--json")
        assert answer.code == 1
        assert "shop.a: table 'shop.a' has snapshots, but no schema" in answer.err
    assert cli("fsck", "shop.*").code == 1
    assert cli("fsck", "shop.b").code == 0
