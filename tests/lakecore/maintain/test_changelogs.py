"""Changelogs that outlive their snapshots keep what a stream reads of them, and nothing else."""

from __future__ import annotations

import pytest

from lakecore.jobs import compact, expire_changelogs, expire_snapshots
from tests.support.lake import key_table, memory_catalog, paths_of, put
from tests.support.maintained import OWNER, History

RETAINED = {"changelog__num_retained__max": "100", "changelog__num_retained__min": "50"}


@pytest.fixture
def made(request: pytest.FixtureRequest) -> History:
    """No changelog of its own: a stream reads the files that writers made. Snapshots 3 and 5 are compactions."""
    catalog = memory_catalog(f"changelogs-{request.node.name}")
    table = key_table(catalog, **RETAINED)
    for number, commits in enumerate(([{"k": 1, "v": "a"}], [{"k": 2, "v": "b"}]), 1):
        put(table, commits, [{"k": 2 + number, "v": "c"}])
        job = compact.Job(table=table.name, strategy=compact.Strategy.FULL, commit_identifier=number)
        compact.run(job, catalog, clock=catalog.clock)
    return History.of(catalog, table)


def data_files(made: History) -> set[str]:
    return {path.rpartition("/")[2] for path in paths_of(made.table) if path.endswith(".parquet")}


def files_by_snapshot(made: History) -> dict[int, set[str]]:
    """What each added."""
    scanner, found = made.table._scanner, dict[int, set[str]]()
    before: set[str] = set()
    for number in made.table._stores.snapshots.list_ids():
        live = scanner.live_entries(made.table._stores.snapshots.load(number)).files()
        now = {file.file_name for file in live}
        found[number] = now - before
        before = now
    return found


def test_files_that_writers_made_stay_and_those_of_compactions_go(made: History) -> None:
    added = files_by_snapshot(made)
    expire = expire_snapshots.Job(table="d.k", retain_max=1, retain_min=1, safety=OWNER)
    expire_snapshots.run(expire, made.catalog, clock=made.catalog.clock)
    last = max(added)
    assert made.table._stores.snapshots.list_ids() == (last,)
    written = set().union(*(added[number] for number in (1, 2, 4, 5)))
    assert data_files(made) == written | added[last]
    made.check_whole("changelogs are left", orphans=True)
    all_of_them = expire_changelogs.Job(table="d.k", delete_all=True, safety=OWNER)
    expire_changelogs.run(all_of_them, made.catalog, clock=made.catalog.clock)
    assert data_files(made) == added[last]
    made.check_whole("no changelog is left", orphans=True)
