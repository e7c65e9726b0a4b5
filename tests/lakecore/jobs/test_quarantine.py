"""Purges of the quarantine: what is due, a single run, and what a dry run reports."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.jobs import quarantine
from lakecore.jobs.definitions.expiry import RemoveOrphanFiles
from lakecore.jobs.definitions.repair import Purge
from lakecore.jobs.runner.dispatch import run_chore
from lakecore.maintain.attempts.record import DAY_MS
from lakecore.maintain.deletion.runs import RunState
from tests.support.fake_clock import FakeClock
from tests.support.lake import key_table, put

WEEK = 7 * DAY_MS


@pytest.fixture
def catalog(tmp_path: Path) -> FilesystemCatalog:
    catalog = replace(load_catalog(str(tmp_path)), clock=FakeClock())
    table = key_table(catalog)
    put(table, [{"k": 1, "v": "x"}])
    for number in range(2):
        orphan = Path(table.path, "bucket-0", f"data-orphan-{number}-0.parquet")
        orphan.write_bytes(b"x" * 1000)
        os.utime(orphan, (1e9, 1e9))
        catalog.clock.sleep(2 * DAY_MS / 1000)
        run_chore(RemoveOrphanFiles(table=table.name), catalog, clock=catalog.clock)
    return catalog


def states(catalog: FilesystemCatalog) -> list[RunState]:
    return [run.state for run in quarantine.runs_of(catalog) if run.keeps]


def test_a_dry_run_reports_what_a_purge_deletes(catalog: FilesystemCatalog) -> None:
    dry = quarantine.run(Purge(ttl_ms=DAY_MS, dry_run=True), catalog, clock=catalog.clock)
    assert states(catalog) == [RunState.QUARANTINED] * 2
    report = quarantine.run(Purge(ttl_ms=DAY_MS), catalog, clock=catalog.clock)
    assert (dry.names, dry.bytes, dry.dry_run) == (report.names, report.bytes, True)
    assert len(report.names) == 1
    assert states(catalog) == [RunState.PURGED, RunState.QUARANTINED]


def test_one_run_is_purged_whatever_its_age(catalog: FilesystemCatalog) -> None:
    last = [run.id for run in quarantine.runs_of(catalog) if run.keeps][-1]
    report = quarantine.run(Purge(ttl_ms=WEEK, purge_run=last), catalog, clock=catalog.clock)
    assert (report.names, report.bytes) == ((last,), 1000)
    assert states(catalog) == [RunState.QUARANTINED, RunState.PURGED]
    with pytest.raises(InvalidInputError, match="no files"):
        quarantine.run(Purge(ttl_ms=WEEK, purge_run=last), catalog, clock=catalog.clock)
    with pytest.raises(NotFoundError):
        quarantine.run(Purge(ttl_ms=WEEK, purge_run="20200101T000000-x"), catalog, clock=catalog.clock)
