"""Storage fails at operation 1, 2, 3, … of a compaction of several tables: each stays whole, the next run ends it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import LakeError
from lakecore.jobs.compact import Strategy
from lakecore.jobs.compact_database import Job, run
from lakecore.table import Table
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import live_files, memory_catalog, paths_of, put, rows_of
from tests.support.maintained import History

KEYED = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
WANTED = Job(strategy=Strategy.FULL, commit_user="test", max_concurrent_tables=1)
MODES = (FaultMode.ERROR, FaultMode.ERROR_AFTER_EFFECT, FaultMode.DEAD, FaultMode.DEAD_AFTER_EFFECT)


def named(table: Table) -> set[str]:
    """Data files of all snapshots."""
    found = (
        table._scanner.live_entries(table._stores.snapshots.load(i))
        for i in table._stores.snapshots.list_ids()
    )
    return {file.file_name for entries in found for file in entries.files()}


@pytest.mark.parametrize("mode", MODES)
def test_every_operation_fails_once(mode: FaultMode) -> None:
    catalog = memory_catalog(f"database-{mode.value}")
    tables = [catalog.create_table(name, KEYED) for name in ("d.a", "d.b")]
    for table in tables:
        put(table, *([{"k": k, "v": f"{n}.{k}"} for k in range(n, n + 2)] for n in range(2)))
    start = History.of(catalog, tables[0])
    rows = [rows_of(table) for table in tables]
    for number in itertools.count(1 + MODES.index(mode), len(MODES)):  # the others fail in the other mode
        start.reset()
        storage = FaultyFileIO(catalog.file_io, number, mode)
        broken: FilesystemCatalog = replace(catalog, file_io=storage)
        try:
            report = run(WANTED, broken, clock=catalog.clock)
        except LakeError:
            assert number < 10, "only the listing of tables ends the whole run"
        else:
            assert storage.fired or report.counts()["changed"] == 2
        if not storage.fired:
            break
        assert [rows_of(table) for table in tables] == rows, storage.log[-1:]
        again = run(WANTED, catalog, clock=catalog.clock)
        assert (again.failed, again.skipped) == ((), ())
        assert [len(live_files(table)) for table in tables] == [1, 1]
        assert [table._stores.snapshots.list_ids() for table in tables] == [(1, 2, 3)] * 2
        for table in tables:
            assert {path.rpartition("/")[2] for path in paths_of(table)} == named(table)
    assert number > 40
