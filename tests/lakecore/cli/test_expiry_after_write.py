"""A write expires snapshots by the table's options, as Paimon's writers do."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.clock import SystemClock
from lakecore.maintain.lease.lease import LeaseTimes, leased
from tests.lakecore.cli.conftest import Cli

LIMITS = {"snapshot.num-retained.max": "2", "snapshot.num-retained.min": "1", "bucket": "-1"}


def made(cli: Cli, **more: str) -> str:
    definition = {"columns": ["n INT"], "options": {**LIMITS, **more}}
    assert cli("create", "d.t", "--schema", json.dumps(definition)).code == 0
    return "d.t"


def ids(cli: Cli) -> list[int]:
    return [row["id"] for row in cli("snapshots", "d.t", "--json").json]


def test_a_writer_keeps_as_many_snapshots_as_the_options_say(cli: Cli) -> None:
    table = made(cli)
    answers = [
        cli("write", table, "-", "--no-compact", "--json", stdin=f'{{"n": {n}}}').json for n in range(5)
    ]
    assert ids(cli) == [4, 5]
    assert [answer["expiry"] and answer["expiry"]["snapshots"] for answer in answers] == [
        None, [], [1], [2], [3],
    ]  # fmt: skip
    said = cli("write", table, "-", "--no-compact", stdin='{"n": 6}').out
    assert "d.t: snapshot 4 has expired" in said
    assert len(cli("read", table).rows) == 6


def test_a_write_only_table_keeps_all_of_them(cli: Cli) -> None:
    table = made(cli, **{"write-only": "true"})
    for n in range(4):
        assert (
            cli("write", table, "-", "--no-compact", "--json", stdin=f'{{"n": {n}}}').json["expiry"] is None
        )
    assert ids(cli) == [1, 2, 3, 4]


def test_by_default_ten_snapshots_stay(cli: Cli) -> None:
    assert cli("create", "d.t", "--schema", json.dumps({"columns": ["n INT"]})).code == 0
    assert cli("write", "d.t", "-", "--json", stdin='{"n": 1}').json["expiry"] is None


def test_what_keeps_snapshots_from_expiring_does_not_fail_the_write(cli: Cli, warehouse: Path) -> None:
    table = made(cli)
    for n in range(2):
        assert cli("write", table, "-", "--no-compact", stdin=f'{{"n": {n}}}').code == 0
    catalog = load_catalog(warehouse)
    with leased(catalog.file_io, catalog.warehouse, table, "nightly 1", SystemClock(), LeaseTimes(60_000)):
        busy = cli("write", table, "-", "--no-compact", "--json", stdin='{"n": 3}')
    assert (busy.code, "maintained by nightly" in busy.json["expiry"]["skipped"]) == (0, True)
    assert ids(cli) == [1, 2, 3]
    contrary = ("--option", "snapshot.num-retained.min=3")
    wrong = cli("write", table, "-", "--no-compact", *contrary, stdin='{"n": 4}')
    assert (wrong.code, "the rows are committed, but snapshots did not expire" in wrong.out) == (1, True)
    assert len(cli("read", table).rows) == 4


def test_the_api_says_that_it_expires_nothing(
    cli: Cli, warehouse: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = load_catalog(warehouse, create_warehouse=True).load_table(made(cli))
    with caplog.at_level(logging.WARNING):
        for n in range(3):
            table.write(pa.table({"n": pa.array([n], pa.int32())}))
    assert ids(cli) == [1, 2, 3]
    assert "snapshot.num-retained.max has no effect on this write" in caplog.text


def test_deletes_and_updates_of_append_tables_say_so_too(
    warehouse: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = load_catalog(warehouse, create_warehouse=True)
    options = {"bucket": "-1", "deletion-vectors.enabled": "true", "snapshot.num-retained.max": "10"}
    rows = pa.table({"n": pa.array([1, 2], pa.int32())})
    table = lake.create_table("d.deleted", {"columns": ["n INT"], "options": options})
    table.append(rows)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert table.delete("n = 1").rows == 1
    assert "snapshot.num-retained.max has no effect on this write" in caplog.text
    options = {
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "snapshot.num-retained.max": "10",
    }
    table = lake.create_table("d.updated", {"columns": ["n INT"], "options": options})
    table.append(rows)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        ids = pa.table({"_ROW_ID": pa.array([0]), "n": pa.array([7], pa.int32())})
        assert table.update_columns(ids).rows == 1
    assert "snapshot.num-retained.max has no effect on this write" in caplog.text
