"""Files beside data files are needed as long as a root, or one in the quarantine, has the data file."""

from __future__ import annotations

import pytest

from lakecore.jobs import compact, expire_snapshots, remove_orphan_files
from lakecore.jobs.runner.chore import Report, Safety
from lakecore.jobs.versions import tags
from tests.support.fake_clock import FakeClock
from tests.support.lake import append_table, key_table, live_files, memory_catalog, paths_of, put, rows_of
from tests.support.maintained import History

KEEPING = Safety(owner="test", quarantine=True, purges=False)
INDEXED = {"file_index__bloom_filter__columns": "v", "file_index__in_manifest_threshold": "1 b"}


@pytest.fixture
def made(request: pytest.FixtureRequest) -> History:
    """Each data file has an index file beside it."""
    catalog = memory_catalog(f"orphans-{request.node.name}")
    table = append_table(catalog, bucket="1", bucket_key="v", **INDEXED)
    put(table, *([{"v": number, "p": "a"}] for number in range(6)))
    assert all(file.extra_files for file in live_files(table))
    return History.of(catalog, table)


def remove_orphans(made: History) -> Report:
    job = remove_orphan_files.Job(
        table="d.a", few=10**6, safety=Safety(owner="test", quarantine=False, purges=False)
    )
    return remove_orphan_files.run(job, made.catalog, clock=FakeClock(4_000_000_000_000))


def indexes(made: History) -> set[str]:
    return {path for path in paths_of(made.table) if path.endswith(".index")}


def test_index_files_of_live_files_are_no_orphans(made: History) -> None:
    kept = indexes(made)
    assert len(kept) == 6
    assert remove_orphans(made).nothing_to_do
    assert indexes(made) == kept


def test_index_files_of_quarantined_snapshots_are_no_orphans(made: History) -> None:
    old = indexes(made)
    clock = made.catalog.clock
    compact.run(compact.Job(table="d.a", strategy=compact.Strategy.FULL), made.catalog, clock=clock)
    assert len(indexes(made) - old) == 1
    for retained in (2, 1):
        job = expire_snapshots.Job(table="d.a", retain_max=retained, retain_min=1, safety=KEEPING)
        expire_snapshots.run(job, made.catalog, clock=clock)
    rewriting = made.table.with_options({"manifest.full-compaction-threshold-size": "1 b"})
    put(rewriting, [{"v": 7, "p": "a"}], [{"v": 8, "p": "a"}])
    job = expire_snapshots.Job(table="d.a", retain_max=1, retain_min=1, safety=KEEPING)
    expire_snapshots.run(job, made.catalog, clock=clock)
    left = indexes(made)
    assert len(left & old) == 5, "snapshots before the last one wait in the quarantine"
    assert remove_orphans(made).nothing_to_do
    assert indexes(made) == left


def test_expiry_removes_files_with_their_index_files_and_leaves_those_of_a_tag(made: History) -> None:
    clock = made.catalog.clock
    tags.run(tags.CreateTag(table="d.a", tag="t", snapshot=3), made.catalog, clock=clock)
    compact.run(compact.Job(table="d.a", strategy=compact.Strategy.FULL), made.catalog, clock=clock)
    safety = Safety(owner="test", quarantine=False, purges=False)
    job = expire_snapshots.Job(table="d.a", retain_max=1, retain_min=1, safety=safety)
    expire_snapshots.run(job, made.catalog, clock=clock)
    assert len(indexes(made)) == 4
    assert sum(path.endswith(".parquet") for path in paths_of(made.table)) == 4
    assert len(rows_of(made.table, tag="t")) == 3
    assert len(rows_of(made.table)) == 6


def test_a_search_for_orphans_says_how_many_files_it_looked_at(made: History) -> None:
    note = next(note for note in remove_orphans(made).notes if note.endswith(" files were checked"))
    assert note == f"{len(paths_of(made.table, ''))} files were checked"


def test_an_index_file_without_its_data_file_is_an_orphan(made: History) -> None:
    first = min(indexes(made))
    lost = first.replace(".index", "-1.index")
    made.catalog.file_io.write_new(lost, b"x")
    assert remove_orphans(made).names == (lost,)


@pytest.mark.parametrize("beside", ["false", "true"])
def test_files_of_index_manifests_are_no_orphans(beside: str) -> None:
    """Neither those of the latest snapshot, nor those of older ones, until these expire."""
    catalog = memory_catalog(f"orphans-hash-index-{beside}")
    table = key_table(catalog, bucket="-1", index_file_in_data_file_dir=beside)
    put(table, *([{"k": number % 2, "v": str(number)}] for number in range(4)))
    manifests = [one.index_manifest for one in table.snapshots()]
    files = [file for name in manifests if name for file in table._stores.manifests.read_index(name)]
    names = {file.file_name for file in files}
    places = {path for path in paths_of(table, "") if path.rpartition("/")[2] in names}
    assert len(places) == len(names) > 1
    assert all(("/bucket-" in path) == (beside == "true") for path in places)
    job = remove_orphan_files.Job(table="d.k", safety=Safety(owner="test", quarantine=False, purges=False))
    assert remove_orphan_files.run(job, catalog, clock=FakeClock(4_000_000_000_000)).nothing_to_do
    assert places <= set(paths_of(table, ""))
    expire = expire_snapshots.Job(table="d.k", retain_max=1, retain_min=1)
    expire_snapshots.run(expire, catalog, clock=catalog.clock)
    assert 0 < len(places & set(paths_of(table, ""))) < len(places)
    assert rows_of(table) == [(0, "2"), (1, "3")]
