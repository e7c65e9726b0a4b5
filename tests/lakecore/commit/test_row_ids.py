"""Row ids are given at commit: without gaps, anew on every try, never to files that store their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakecore.errors import CommitConflictError
from lakecore.metadata.manifest.data_file import FileSource
from tests.support.builders import commit_message, data_file, table_schema
from tests.support.commit_table import CommitTable
from tests.support.fault_fs import FaultyFileIO


@pytest.fixture
def table() -> CommitTable:
    schema = table_schema(primary_keys=(), options={"bucket": "-1", "row-tracking.enabled": "true"})
    return CommitTable(schema).created()


def ids(table: CommitTable) -> dict[str, tuple[int | None, int, int]]:
    """First row id and sequence numbers of the live files."""
    latest = table.snapshots.latest()
    assert latest is not None
    entries = table.manifests.read(table.manifests.data_manifests(latest)).rows()
    return {
        e.file.file_name: (e.file.first_row_id, e.file.min_sequence_number, e.file.max_sequence_number)
        for e in entries
        if e.kind.name == "ADD"
    }


def test_ids_follow_one_another(table: CommitTable) -> None:
    table.commit([commit_message(data_file("a", rows=7), data_file("b", rows=5))], identifier=1)
    table.commit([commit_message(data_file("c", rows=3))], identifier=2)
    assert ids(table) == {"a": (0, 1, 1), "b": (7, 1, 1), "c": (12, 2, 2)}
    found = table.snapshots.load(2)
    assert found.next_row_id == 15
    delta = table.manifests.read_list(found.delta_manifest_list)
    assert [(file.min_row_id, file.max_row_id) for file in delta] == [(12, 14)]


def test_files_with_ids_of_their_own_keep_them(table: CommitTable) -> None:
    table.commit([commit_message(data_file("a", rows=7))], identifier=1)
    (before,) = table.manifests.read(table.manifests.data_manifests(table.snapshots.load(1))).files()
    columns = ("k", "v", "_ROW_ID", "_SEQUENCE_NUMBER")
    after = replace(data_file("b", sequence=(4, 9)), file_source=FileSource.COMPACT, write_cols=columns)
    moved = replace(data_file("m", sequence=(5, 5)), write_cols=columns)
    table.commit([commit_message(moved, compact_before=(before,), compact_after=(after,))], identifier=2)
    assert ids(table) == {"a": (0, 1, 1), "b": (None, 4, 9), "m": (None, 5, 5)}
    assert table.snapshots.load(3).next_row_id == 7


def test_another_commit_takes_ids_first(table: CommitTable) -> None:
    class Racing(FaultyFileIO):
        raced = False

        def publish(self, path: str, data: bytes) -> bool:
            if not self.raced:
                self.raced = True
                table.commit([commit_message(data_file("other", rows=4))], identifier=1, commit_user="other")
            return super().publish(path, data)

    message = commit_message(data_file("mine", rows=2))
    table.through(Racing(table.storage)).commit([message], identifier=1)
    assert ids(table) == {"other": (0, 1, 1), "mine": (4, 2, 2)}
    assert table.snapshots.load(2).next_row_id == 6


def test_compactions_do_not_join_rows_whose_columns_changed_meanwhile() -> None:
    options = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    table = CommitTable(table_schema(primary_keys=(), options=options)).created()
    table.commit([commit_message(data_file("a", rows=7), data_file("b", rows=5))], identifier=1)
    a, b = table.manifests.read(table.manifests.data_manifests(table.snapshots.load(1))).files()
    joined = replace(a, file_name="ab", row_count=12)
    merge = commit_message(compact_before=(a, b), compact_after=(joined,))
    column = replace(data_file("v", rows=5), first_row_id=7, write_cols=("v",))
    table.commit([commit_message(column)], identifier=2)
    with pytest.raises(CommitConflictError, match="row ranges of ab and v overlap in part"):
        table.commit([merge], identifier=3)
    alone = commit_message(compact_before=(b,), compact_after=(replace(b, file_name="c"),))
    table.commit([alone], identifier=4)
    assert table.live() == ["a", "c", "v"]
