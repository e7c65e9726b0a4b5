"""Whether the latest snapshot can be read: healthy tables of every kind pass, lost files are found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.clock import SystemClock
from lakecore.errors import CorruptDataError, UnavailableError
from lakecore.jobs import compact, expire_snapshots
from lakecore.jobs.runner.lake import target_of
from lakecore.jobs.versions import tags
from lakecore.maintain.deletion import latest as module
from lakecore.maintain.deletion.latest import check_latest
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.table import Table
from tests.support.golden import golden_tables
from tests.support.lake import append_table, live_files, memory_catalog, put
from tests.support.maintained import OWNER, history


def few(monkeypatch: pytest.MonkeyPatch, up_to: int, sample: int) -> None:
    monkeypatch.setattr(module, "_ALL_UP_TO", up_to)
    monkeypatch.setattr(module, "_SAMPLE", sample)


def many_files(name: str) -> tuple[Target, Table]:
    catalog = memory_catalog(name)
    table = append_table(catalog)
    for number in range(30):
        put(table, [{"v": number, "p": "a"}])
    return target_of(table, catalog, catalog.clock), table


def lose(table: Table, names: Any) -> None:
    for name in names:
        table._stores.file_io.delete(f"{table.path}/bucket-0/{name}")


@pytest.mark.slow
@pytest.mark.parametrize("up_to", [10_000, 0])
def test_every_table_that_java_wrote_is_readable(up_to: int, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, up_to, 5)
    checked = 0
    for golden in golden_tables():
        catalog = load_catalog(str(golden.warehouse))
        table = catalog.load_table(golden.name)
        for one in (table, *(table.at_branch(name) for name in table._stores.branches.list())):
            check_latest(target_of(one, catalog, SystemClock()))
            checked += 1
    assert checked > 200


def test_one_lost_file_among_few_is_found() -> None:
    target, table = many_files("few")
    check_latest(target)
    names = [file.file_name for file in live_files(table)]
    lose(table, names[7:8])
    with pytest.raises(CorruptDataError, match=rf"needs .*{names[7]}, which is missing;"):
        check_latest(target)
    lose(table, names[:3])
    with pytest.raises(CorruptDataError, match="and 3 more files"):
        check_latest(target)


def test_of_many_files_each_snapshot_looks_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    target, table = many_files("many")
    few(monkeypatch, 10, 10)
    lose(table, [live_files(table)[7].file_name])
    found = 0
    for _ in range(4):
        try:
            check_latest(target)
        except CorruptDataError:
            found += 1
        put(table, [{"v": 1, "p": "a"}])
    assert 0 < found < 4, "one file in three is looked for"
    lose(table, [file.file_name for file in live_files(table)])
    with pytest.raises(CorruptDataError):
        check_latest(target)


def test_a_file_that_a_later_manifest_removed_may_be_gone() -> None:
    made = history("removed")
    catalog = made.catalog
    tags.run(tags.DeleteTag(table="d.k", tags=("a", "b"), safety=OWNER), catalog, clock=catalog.clock)
    full = compact.Job(table="d.k", strategy=compact.Strategy.FULL, commit_identifier=77)
    compact.run(full, catalog, clock=catalog.clock)
    job = expire_snapshots.Job(table="d.k", retain_max=1, retain_min=1, safety=OWNER)
    expire_snapshots.run(job, catalog, clock=catalog.clock)
    target = target_of(made.table, catalog, catalog.clock)
    latest = target.snapshots.latest()
    assert latest is not None
    entries = target.manifests.read(target.manifests.data_manifests(latest))
    added = entries.select(entries.kind == EntryKind.ADD).files()
    gone = [
        file for file in added if not catalog.file_io.stat(f"{made.table.path}/bucket-0/{file.file_name}")
    ]
    assert gone, "the manifests name a file that is gone"
    check_latest(target)


def test_a_snapshot_that_goes_meanwhile_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    target, table = many_files("meanwhile")
    lose(table, [live_files(table)[0].file_name])
    latest = target.snapshots.latest()
    assert latest is not None
    read = module._missing

    def then_gone(*arguments: Any) -> list[str]:
        found = read(*arguments)
        target.file_io.delete(target.paths.snapshot(latest.id))
        return found

    monkeypatch.setattr(module, "_missing", then_gone)
    with pytest.raises(UnavailableError, match="was removed while it was being checked"):
        check_latest(target)


@pytest.mark.parametrize("version", ["a_dv_pk"])
def test_lost_deletion_vectors_are_found(version: str, tmp_path: Any) -> None:
    golden = next(one for one in golden_tables() if one.table == version)
    golden.copy_to(tmp_path)
    catalog = load_catalog(tmp_path)
    table = catalog.load_table(golden.name)
    target = replace(target_of(table, catalog, SystemClock()))
    latest = target.snapshots.latest()
    assert latest is not None
    [index, *_] = target.manifests.read_index(latest.index_manifest)
    check_latest(target)
    target.file_io.delete(target.paths.index_file(index.file_name))
    with pytest.raises(CorruptDataError, match=index.file_name):
        check_latest(target)


def test_a_table_without_snapshots_has_nothing_to_lose() -> None:
    catalog = memory_catalog("empty")
    check_latest(target_of(append_table(catalog), catalog, catalog.clock))
