"""Index files in commits: complete manifests, what must be named, and races over deleted rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pyroaring import BitMap

from lakecore.commit.request import Overwrite
from lakecore.errors import CommitConflictError, UnsupportedError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import EMPTY_ROW
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import encode_row
from tests.support.builders import commit_message, data_file, table_schema
from tests.support.commit_table import CommitTable
from tests.support.fault_fs import FaultyFileIO


def append_schema(**options: str) -> TableSchema:
    return table_schema(primary_keys=(), options={"bucket": "-1", **options})


@pytest.fixture
def table() -> CommitTable:
    """Data files a, b and c."""
    made = CommitTable(append_schema()).created()
    made.commit([commit_message(data_file("a"), data_file("b"), data_file("c"))], identifier=1)
    return made


def vectors(table: CommitTable, *names: str, partition: bytes = EMPTY_ROW, bucket: int = 0) -> IndexFile:
    return table.indexes.write_vectors(partition, bucket, {name: BitMap([1]) for name in names})


def deletion(new: tuple[IndexFile, ...], old: tuple[IndexFile, ...] = ()) -> CommitMessage:
    return replace(commit_message(total_buckets=-1), new_index_files=new, deleted_index_files=old)


def marked(table: CommitTable) -> list[str]:
    """Data files with a vector, per index file."""
    return sorted("+".join(place.data_file for place in file.deletions) for file in table.index_files())


def test_deleted_rows_make_an_overwrite_that_later_commits_carry(table: CommitTable) -> None:
    first = vectors(table, "a", "b")
    table.commit([deletion((first,))], identifier=2)
    table.commit([commit_message(data_file("d"))], identifier=3)
    table.commit(
        [commit_message(compact_before=(data_file("c"),), compact_after=(data_file("e"),))], identifier=4
    )
    snapshots = [table.snapshots.load(number) for number in (2, 3, 4)]
    assert [s.commit_kind.value for s in snapshots] == ["OVERWRITE", "APPEND", "COMPACT"]
    assert len({s.index_manifest for s in snapshots}) == 1
    assert table.index_files() == (first,)
    assert snapshots[0].delta_record_count == 0


def test_a_compaction_takes_vectors_along(table: CommitTable) -> None:
    old, other = vectors(table, "a", "b"), vectors(table, "c")
    table.commit([deletion((old, other))], identifier=2)
    message = replace(
        commit_message(compact_before=(data_file("a"),), compact_after=(data_file("d"),)),
        compact_deleted_index_files=(old,),
        compact_new_index_files=(vectors(table, "b"),),
    )
    table.commit([message], identifier=3)
    assert marked(table) == ["b", "c"]
    assert table.live() == ["b", "c", "d"]


CONFLICTS = {
    "a vector that nobody knew of": (
        lambda t, old: commit_message(compact_before=(data_file("a"),), compact_after=(data_file("d"),)),
        "a in bucket 0: another commit deleted rows of the file to be replaced",
    ),
    "removed by a plain delete": (
        lambda t, old: commit_message(deleted_files=(data_file("a"),)),
        "a in bucket 0: another commit deleted rows of the file to be replaced",
    ),
    "two vectors of one file": (
        lambda t, old: deletion((vectors(t, "a"),)),
        "a in bucket 0: another commit deleted rows of this file",
    ),
    "an index file that is gone": (
        lambda t, old: deletion((vectors(t, "c"),), (replace(old, file_name="index-x"),)),
        "index-x in bucket 0: the index file to be replaced was replaced by another commit",
    ),
    "a data file that is gone": (
        lambda t, old: deletion((vectors(t, "z"),)),
        "z in bucket 0: the file whose rows are deleted was replaced by another commit",
    ),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_conflicts_leave_nothing(case: str, table: CommitTable) -> None:
    old = vectors(table, "a", "b")
    table.commit([deletion((old,))], identifier=2)
    make, problem = CONFLICTS[case]
    with pytest.raises(CommitConflictError, match=problem):
        table.commit([make(table, old)], identifier=3)
    assert table.index_files() == (old,)
    assert table.orphans() == set()


def test_buckets_have_one_file_of_each_type() -> None:
    table = CommitTable(table_schema(options={"bucket": "2", "deletion-vectors.enabled": "true"})).created()
    table.commit([commit_message(data_file("a", level=5))], identifier=1)
    old = vectors(table, "a")
    message = commit_message()
    table.commit([replace(message, compact_new_index_files=(old,))], identifier=2)
    new = vectors(table, "a")
    with pytest.raises(CommitConflictError, match="wrote an index of this bucket"):
        table.commit([replace(message, compact_new_index_files=(new,))], identifier=3)
    both = replace(message, compact_new_index_files=(new,), compact_deleted_index_files=(old,))
    table.commit([both], identifier=4)
    assert table.index_files() == (new,)
    assert table.history()[1:] == ["2 COMPACT u/2", "3 COMPACT u/4"]


def test_hashes_of_new_keys_come_with_an_append() -> None:
    table = CommitTable(table_schema(options={"bucket": "-1"})).created()
    first = table.indexes.write_hashes(EMPTY_ROW, 0, np.array([1, 2]))
    message = commit_message(data_file("a"), total_buckets=-1)
    table.commit([replace(message, new_index_files=(first,))], identifier=1)
    assert table.history() == ["1 APPEND u/1"]
    second = table.indexes.write_hashes(EMPTY_ROW, 0, np.array([1, 2, 3]))
    later = replace(commit_message(data_file("b"), total_buckets=-1), new_index_files=(second,))
    with pytest.raises(CommitConflictError, match="index of this bucket"):
        table.commit([later], identifier=2)
    table.commit([replace(later, deleted_index_files=(first,))], identifier=3)
    assert table.index_files() == (second,)


@pytest.mark.parametrize(
    ("overwrite", "left"),
    [(Overwrite.table(), []), (Overwrite.static({"dt": 1}), [2]), (Overwrite.dynamic(), [1])],
)
def test_an_overwrite_drops_the_indexes_of_its_partitions(overwrite: Overwrite, left: list[int]) -> None:
    schema = table_schema(
        "k BIGINT, dt INT", primary_keys=(), partition_keys=("dt",), options={"bucket": "-1"}
    )
    table = CommitTable(schema).created()
    days = {day: encode_row((day,), schema.partition_type) for day in (1, 2)}
    files = [
        commit_message(data_file(f"f{day}"), partition=key, total_buckets=-1) for day, key in days.items()
    ]
    table.commit(files, identifier=1)
    made = [deletion((vectors(table, f"f{day}", partition=key),)) for day, key in days.items()]
    table.commit(made, identifier=2)
    fresh = commit_message(data_file("n"), partition=days[2], total_buckets=-1)
    messages = [fresh] if overwrite.partitions is None else []
    table.commit(messages, identifier=3, overwrite=overwrite)
    assert [file.partition for file in table.index_files()] == [days[day] for day in left]


def test_every_try_starts_from_the_index_of_the_latest_snapshot(table: CommitTable) -> None:
    class Racing(FaultyFileIO):
        raced = False

        def publish(self, path: str, data: bytes) -> bool:
            if not self.raced:
                self.raced = True
                table.commit([deletion((vectors(table, "b"),))], identifier=2, commit_user="other")
            return super().publish(path, data)

    table.through(Racing(table.storage)).commit([deletion((vectors(table, "a"),))], identifier=3)
    assert marked(table) == ["a", "b"]
    assert table.orphans() == set()

    class Meanwhile(Racing):
        def publish(self, path: str, data: bytes) -> bool:
            if not self.raced:
                self.raced = True
                table.commit([deletion((vectors(table, "c"),))], identifier=4, commit_user="other")
            return super().publish(path, data)

    merge = commit_message(compact_before=(data_file("c"),), compact_after=(data_file("d"),))
    with pytest.raises(CommitConflictError, match="deleted rows of the file to be replaced"):
        table.through(Meanwhile(table.storage)).commit([merge], identifier=5)
    assert marked(table) == ["a", "b", "c"]
    assert table.orphans() == set()


def test_other_indexes_are_left_alone_or_refused(table: CommitTable) -> None:
    btree = replace(vectors(table, "a"), index_type="btree", deletions=())
    table.commit([deletion((btree,))], identifier=2)
    table.commit([deletion((vectors(table, "b"),))], identifier=3)
    assert {file.index_type for file in table.index_files()} == {"btree", "DELETION_VECTORS"}
    merge = commit_message(compact_before=(data_file("c"),), compact_after=(data_file("d"),))
    with pytest.raises(UnsupportedError, match=r"of type btree"):
        table.commit([merge], identifier=4)
