"""fsck beside a writer of Java that commits, compacts and expires: a sound table is clean at every moment."""

from __future__ import annotations

import threading
import time
from itertools import count
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import fsck
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

SCHEMA = {
    "columns": ["k INT NOT NULL", "v STRING"],
    "primaryKeys": ["k"],
    "options": {"bucket": "2", "changelog-producer": "lookup"},
}
ROUNDS = 25


def _write(oracle: Oracle, warehouse: Path, enough: threading.Event, failed: list[BaseException]) -> None:
    """Rounds of commits, compactions and expiry, until `enough` is set or two minutes have passed."""
    end = time.monotonic() + 120
    limits = ("--retain-max", "2", "--retain-min", "1", "--older-than", str(1 << 60))
    try:
        for number in count():
            if number >= ROUNDS and (enough.is_set() or time.monotonic() > end):
                return
            rows = [{"k": (number + i) % 40, "v": f"{number}"} for i in range(10)]
            oracle.write(warehouse, "d.t", rows)
            if number % 5 == 1:
                oracle.call("create-tag", warehouse, "d.t", f"t{number}")
            if number % 2:
                oracle.compact(warehouse, "d.t", full=number % 4 == 3)
            oracle.call("expire-snapshots", warehouse, "d.t", *limits)
            if number % 5 == 3:
                oracle.call("delete-tag", warehouse, "d.t", f"t{number - 2}")
    except BaseException as err:  # noqa: BLE001 - raised by the test
        failed.append(err)


def test_a_table_that_java_writes_compacts_and_expires_is_always_clean(
    oracle: Oracle, tmp_path: Path
) -> None:
    oracle.create(tmp_path, "d.t", SCHEMA)
    oracle.write(tmp_path, "d.t", [{"k": 0, "v": "a"}])
    catalog = load_catalog(tmp_path)
    failed: list[BaseException] = []
    enough = threading.Event()
    writer = threading.Thread(target=_write, args=(oracle, tmp_path, enough, failed))
    writer.start()
    found: list[str] = []
    checks = moved = 0
    while writer.is_alive():
        report = fsck.run(fsck.Job(table="d.t", deep=checks % 2 == 1), catalog).report
        found += map(str, report.findings)
        checks, moved = checks + 1, moved + report.moved
        if checks >= 10 and moved:
            enough.set()
    writer.join()
    assert failed == []
    assert found == []
    assert checks >= 10
    assert moved > 0, "nothing came or went while the table was checked: the test shows nothing"
    report = fsck.run(fsck.Job(table="d.t", deep=True), catalog).report
    assert report.findings == ()
