"""Drivers killed with SIGKILL: the table reads right, nothing is damaged, the same run again completes it once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.cli.main import main
from lakecore.clock import SystemClock
from lakecore.jobs.compact import Job, Report, Strategy, run
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind, FsckReport
from tests.support.killing_fs import KillPoint, run_and_die
from tests.support.lake import append_table, key_table, live_files, put, rows_of

KEYED, APPEND = "d.k", "d.a"
ROWS = [{"k": 2, "v": "killed"}, {"k": 7, "v": "killed"}]
COMMIT = ("--commit-user", "job", "--identifier", "5")


@pytest.fixture
def lake(tmp_path: Path) -> FilesystemCatalog:
    """A keyed and an append table with three snapshots each."""
    catalog = load_catalog(str(tmp_path), **{"local.fsync": "false"})
    keyed = key_table(catalog)
    put(keyed, *([{"k": k, "v": f"{n}.{k}"} for k in range(n, n + 4)] for n in range(3)))
    append = append_table(catalog, columns=("k INT", "v STRING"))
    put(append, *([{"k": k, "v": f"{n}.{k}"} for k in range(n, n + 4)] for n in range(3)))
    return catalog


def compact(warehouse: str, table: str) -> Report:
    job = Job(table=table, strategy=Strategy.FULL, commit_user="job", commit_identifier=5)
    return run(job, load_catalog(warehouse))


def checked(catalog: FilesystemCatalog, table: str) -> FsckReport:
    """A table without damage; its report may have orphans."""
    loaded = catalog.load_table(table)
    report = fsck(
        loaded._stores.file_io, loaded._stores.paths, now_ms=SystemClock().now_ms(), deep=True, read_data=True
    )
    assert {finding.kind for finding in report.findings} <= {FindingKind.ORPHAN, FindingKind.HINT}
    return report


def commits(catalog: FilesystemCatalog, table: str) -> list[tuple[str, int]]:
    """Kind and identifier of the snapshots of user `job`."""
    store = catalog.load_table(table)._stores.snapshots
    found = (store.load(snapshot_id) for snapshot_id in store.list_ids())
    return [(s.commit_kind.value, s.commit_identifier) for s in found if s.commit_user == "job"]


def at(name: str, part: str, **fields: Any) -> KillPoint:
    return KillPoint(name=name, part=part, **fields)


COMPACTIONS = {
    "at the plan": at("read", "manifest/manifest-"),
    "when it opens its first file": at("open_output", "bucket-", after=True),
    "while it writes": at("write", "bucket-", after=True),
    "before the file is whole": at("close", "bucket-"),
    "while it proves": at("open_input", "bucket-", nth=4),
    "between its manifests": at("write_new", "manifest/manifest-", after=True, nth=2),
    "before it publishes": at("publish", "snapshot-4"),
    "while it publishes": None,
    "after it published": at("publish", "snapshot-4", after=True),
    "after the hint": at("overwrite", "LATEST", after=True),
}
LANDED = ("after it published", "after the hint")
FAST = ("while it writes", "after it published")
points = pytest.mark.parametrize(
    "point", [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in COMPACTIONS]
)


@pytest.mark.parametrize("table", [KEYED, pytest.param(APPEND, marks=pytest.mark.slow)])
@points
def test_compaction(lake: FilesystemCatalog, table: str, point: str) -> None:
    before = rows_of(lake.load_table(table))
    run_and_die(COMPACTIONS[point], compact, lake.warehouse, table)

    assert rows_of(lake.load_table(table)) == before
    assert len(commits(lake, table)) == (point in LANDED)
    checked(lake, table)

    again = compact(lake.warehouse, table)
    assert (again.error, again.snapshots) == (None, (4,))
    assert commits(lake, table) == [("COMPACT", 5)]
    assert rows_of(lake.load_table(table)) == before
    assert len(live_files(lake.load_table(table))) == 1
    checked(lake, table)
    assert compact(lake.warehouse, table).nothing_to_do


WRITES = ("while it writes", "before it publishes", "while it publishes", "after it published")


@pytest.mark.slow
@pytest.mark.parametrize("table", [KEYED, APPEND])
@pytest.mark.parametrize("point", WRITES)
def test_write(lake: FilesystemCatalog, table: str, point: str, tmp_path: Path) -> None:
    old = rows_of(lake.load_table(table))
    kept = [row for row in old if table == APPEND or row[0] not in (2, 7)]
    new = sorted([*kept, *(tuple(row.values()) for row in ROWS)], key=repr)
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    command = ("--warehouse", lake.warehouse, "write", table, str(file), "--no-compact", *COMMIT)
    run_and_die(COMPACTIONS[point], main, command)

    assert rows_of(lake.load_table(table)) == (new if point in LANDED else old)
    checked(lake, table)
    assert main(command) == 0
    assert rows_of(lake.load_table(table)) == new
    assert commits(lake, table) == [("APPEND", 5)]
    checked(lake, table)
