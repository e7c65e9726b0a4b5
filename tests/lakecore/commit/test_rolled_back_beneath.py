"""A table that is rolled back, or created again, at the moment of a publication: the commit does not undo that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import CommitUncertainError
from lakecore.jobs import compact
from lakecore.verify.fsck.check import fsck
from tests.support.lake import key_table, memory_catalog, paths_of, put, rows_of
from tests.support.meddling_fs import Meddling
from tests.support.rolled import go_back

SETTLING = {"lakecore__commit__settle_time": "10 ms"}


def lake(name: str, **options: str) -> FilesystemCatalog:
    catalog = memory_catalog(f"rolled-back-beneath-{name}")
    put(key_table(catalog, **options), *([{"k": number, "v": "x"}] for number in range(3)))
    return catalog


def latest_hint(catalog: FilesystemCatalog) -> bytes:
    return catalog.file_io.read(catalog.load_table("d.k")._stores.paths.latest_hint)


def test_a_commit_beneath_a_rollback_is_made_again_on_what_is_there_now() -> None:
    """Otherwise the table would have the rows again that were rolled back, and a gap in its history."""
    catalog = lake("commit")
    storage = Meddling(catalog.file_io, "publish", "/snapshot/snapshot-4", lambda: go_back(catalog, 1))
    put(replace(catalog, file_io=storage).load_table("d.k"), [{"k": 9, "v": "new"}])
    table = catalog.load_table("d.k")
    assert rows_of(table) == [(0, "x"), (9, "new")]
    assert table._stores.snapshots.list_ids() == (1, 2)
    report = fsck(table._stores.file_io, table._stores.paths, now_ms=0)
    assert not [finding for finding in report.findings if "missing" in finding.problem]


def test_a_commit_beneath_a_rollback_on_which_another_was_built_is_uncertain() -> None:
    catalog = lake("built")
    paths = catalog.load_table("d.k")._stores.paths

    def build() -> None:
        go_back(catalog, 1)
        catalog.file_io.write_new(paths.snapshot(5), b"{}")

    storage = Meddling(catalog.file_io, "publish", "/snapshot/snapshot-4", build)
    with pytest.raises(CommitUncertainError, match="another writer has built on snapshot 4"):
        put(replace(catalog, file_io=storage).load_table("d.k"), [{"k": 9, "v": "new"}])
    assert catalog.file_io.stat(paths.snapshot(4)) is not None


def test_the_hint_does_not_name_a_snapshot_that_a_rollback_removed() -> None:
    """Java trusts it, and could not read the table."""
    catalog = lake("hint", **SETTLING)
    storage = Meddling(catalog.file_io, "overwrite", "/snapshot/LATEST", lambda: go_back(catalog, 1))
    job = compact.Job(table="d.k", strategy=compact.Strategy.FULL)
    with pytest.raises(CommitUncertainError, match="snapshot 4 was removed by another process"):
        compact.run(job, replace(catalog, file_io=storage))
    assert latest_hint(catalog) == b"1"


@pytest.mark.parametrize("commits", [0, 3])
def test_a_commit_gets_into_no_table_that_was_created_again(commits: int) -> None:
    """Nor if that has a snapshot with the number of the base already."""
    catalog = lake(f"again-{commits}")

    def create_again() -> None:
        for path in paths_of(catalog.load_table("d.k"), ""):
            catalog.file_io.delete(path)
        put(key_table(catalog), *([{"k": number, "v": "new"}] for number in range(commits)))

    storage = Meddling(catalog.file_io, "publish", "/snapshot/snapshot-4", create_again)
    table = replace(catalog, file_io=storage).load_table("d.k")
    with pytest.raises(CommitUncertainError, match="is not part of it"):
        put(table, [{"k": 9, "v": "old"}])
    assert rows_of(catalog.load_table("d.k")) == [(number, "new") for number in range(commits)]
