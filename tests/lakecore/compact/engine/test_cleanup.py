"""What a snapshot names is never removed as left over, even where the run has forgotten that it committed it."""

from __future__ import annotations

from functools import partial

import pytest

from lakecore.commit.committer import Committer
from lakecore.compact.engine.cleanup import remove, sweep
from lakecore.errors import NotFoundError
from lakecore.table import Table
from tests.support.lake import key_table, live_files, memory_catalog, paths_of, put


@pytest.fixture
def table(request: pytest.FixtureRequest) -> Table:
    table = key_table(memory_catalog(f"cleanup-{request.node.name}"))
    put(table, [{"k": 1, "v": "x"}], [{"k": 2, "v": "y"}])
    table._stores.file_io.write_new(f"{bucket(table)}/data-left-over", b"x")
    return table


def bucket(table: Table) -> str:
    return f"{table.path}/bucket-0"


def everything(name: str, mtime_ms: int) -> bool:
    return True


def users(table: Table) -> list[str]:
    return [table._stores.snapshots.load(number).commit_user for number in table._stores.snapshots.list_ids()]


def committer(table: Table) -> Committer:
    return Committer(table._stores)


def published(table: Table) -> frozenset[str]:
    return frozenset().union(*(committer(table).published_names(user) for user in users(table)))


def test_names_of_one_user(table: Table) -> None:
    files = live_files(table)
    assert published(table) == {file.file_name for file in files}
    assert committer(table).published_names("nobody") == frozenset()


def test_published_files_stay(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    paths = paths_of(table)
    remove(table._stores.file_io, sorted(paths), partial(published, table))
    assert paths - paths_of(table) == {f"{bucket(table)}/data-left-over"}
    assert "2 files that were taken for left-over ones are published" in caplog.text


def test_a_search_finds_no_published_file(table: Table) -> None:
    paths = paths_of(table)
    assert sweep(table._stores.file_io, [bucket(table)], everything, partial(published, table)) == 3
    assert paths - paths_of(table) == {f"{bucket(table)}/data-left-over"}


def test_nothing_is_removed_where_snapshots_cannot_be_read(table: Table) -> None:
    def lost() -> frozenset[str]:
        raise NotFoundError("manifest", "it is gone")

    paths = paths_of(table)
    remove(table._stores.file_io, sorted(paths), lost)
    sweep(table._stores.file_io, [bucket(table)], everything, lost)
    assert paths_of(table) == paths


def test_snapshots_are_not_read_where_there_is_nothing_to_remove(table: Table) -> None:
    def read() -> frozenset[str]:
        pytest.fail("nothing is to be removed")

    remove(table._stores.file_io, [], read)
    sweep(table._stores.file_io, [f"{table.path}/bucket-1"], everything, read)
