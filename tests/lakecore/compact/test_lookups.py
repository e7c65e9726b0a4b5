"""What a merge looks up in levels above it: by page, past deleted rows, and only while those files stay."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakecore.commit.request import CommitRequest
from lakecore.compact.kinds.primary_key.lookup import run as level_run
from lakecore.errors import CommitConflictError
from lakecore.executor import SerialExecutor
from lakecore.format.parquet.pages import KeyPage
from lakecore.jobs import compact
from lakecore.lookup.key_page_marks import KeyPageMarks
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import EMPTY_ROW
from lakecore.table import Table
from lakecore.types.datatypes import AtomicType, DataField, RowType, TypeRoot
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from tests.support.lake import key_table, live_files, memory_catalog, put, rows_of

KEY = RowType((DataField(0, "t", AtomicType(TypeRoot.VARCHAR)), DataField(1, "n", AtomicType(TypeRoot.INT))))


def test_pages_are_wanted_by_the_keys_they_may_hold() -> None:
    pages = [
        KeyPage(0, 10, (b"a", 1), (b"a", 5)),
        KeyPage(10, 10, (b"a", 6), (b"a", 9)),
        KeyPage(20, 10, (b"ab",), (b"cx",)),
        KeyPage(30, 10, (b"d",), (b"d",)),
    ]
    for keys, ranges in (
        ([], []),
        ([("a", 0)], []),
        ([("a", 5)], [(0, 10)]),
        ([("a", 1), ("a", 7)], [(0, 20)]),
        ([("a", 10), ("b", 1)], [(20, 30)]),
        ([("a", 2), ("d", 7)], [(0, 10), (30, 40)]),
        ([("d", -1), ("e", 0)], [(30, 40)]),
    ):
        wanted = KeyPageMarks(pages, KEY)
        columns = [[key[i] for key in keys] for i in range(2)]
        wanted.mark(
            pa.record_batch([pa.array(columns[0], pa.string()), pa.array(columns[1], pa.int32())], ["t", "n"])
        )
        assert wanted.ranges() == ranges, keys


class Racing(SerialExecutor):
    """Something happens between planning and the first unit."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self._meanwhile: Callable[[], None] | None = meanwhile

    def run(self, function: Any, units: Any) -> Iterator[Any]:
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return iter(super().run(function, units))


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_a_pick_is_dropped_when_a_file_it_looked_into_is_replaced(vectors: str) -> None:
    """Its old rows would be told of, or marked as deleted, in a file that is gone; another round does it right."""
    catalog = memory_catalog("lookup-race")
    table = key_table(catalog, changelog_producer="lookup", deletion_vectors__enabled=vectors)
    put(table, [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog)
    put(table, [{"k": 2, "v": "new"}])
    job = compact.Job(table="d.k")
    report = compact.run(job, catalog, Racing(lambda: rename(table)))
    assert len(report.dropped) == 1
    assert report.picks_done == 0
    assert sorted(file.level for file in live_files(table)) == [0, 5]
    orphans = [
        f.path
        for f in fsck(table._stores.file_io, table._stores.paths, now_ms=0).findings
        if f.kind is FindingKind.ORPHAN
    ]
    assert orphans == []
    assert compact.run(job, catalog).picks_done == 1
    assert rows_of(table) == [(1, "a"), (2, "new")]
    lines = [
        row["v"]
        for change in table.stream(snapshot=5)
        for batch in change.to_batches()
        for row in batch.to_pylist()
    ]
    assert lines == ["b", "new"]


def rename(table: Table) -> None:
    """Another compactor rewrites the file of the last level alone."""
    old = next(file for file in live_files(table) if file.level)
    new = replace(old, file_name=f"data-other-{old.file_name}")
    folder = table._read_context().bucket_dir(EMPTY_ROW, 0)
    table._stores.file_io.write_new(
        f"{folder}/{new.file_name}", table._stores.file_io.read(f"{folder}/{old.file_name}")
    )
    message = CommitMessage(
        partition=EMPTY_ROW, bucket=0, total_buckets=1, compact_before=(old,), compact_after=(new,)
    )
    table._committer().commit([message], CommitRequest(user="other", identifier=1))


def test_a_commit_names_the_consulted_file_that_is_gone() -> None:
    table = key_table(memory_catalog("lookup-gone"), changelog_producer="lookup")
    put(table, [{"k": 1, "v": "a"}])
    (fresh,) = live_files(table)
    message = CommitMessage(
        partition=EMPTY_ROW,
        bucket=0,
        total_buckets=1,
        compact_before=(fresh,),
        compact_after=(replace(fresh, level=4),),
        compact_required_files=(replace(fresh, file_name="data-gone", level=5),),
    )
    with pytest.raises(CommitConflictError, match="data-gone"):
        table._committer().commit([message], CommitRequest(user="me", identifier=1))


def test_cut_and_whole_lookups_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of the last level are read by the keys of level 0, wherever the merge is cut."""
    monkeypatch.setattr(level_run, "_MANY_KEYS_BYTES", 0)
    found = []
    for parallelism in (1, 4):
        catalog = memory_catalog(f"lookup-cut-{parallelism}")
        table = key_table(catalog, changelog_producer="lookup", target_file_size="100 kb")
        for step in (1, 7):
            keys = pa.array(range(0, 60_000, step), pa.int32())
            table.upsert(
                pa.table({"k": keys, "v": [f"{step}.{k.as_py() * 2654435761 % 2**32}" for k in keys]})
            )
            compact.run(compact.Job(table="d.k"), catalog, Wide(parallelism))
        stream = [batch for change in table.stream(snapshot=1) for batch in change.to_batches()]
        found.append(
            pa.Table.from_batches(stream).sort_by([("k", "ascending"), ("_VALUE_KIND", "ascending")])
        )
    assert found[0].equals(found[1])
    assert found[0].num_rows == 60_000 + 2 * len(range(0, 60_000, 7))


def told(table: Table, snapshot: int) -> list[tuple[Any, ...]]:
    """Changes from this snapshot on: key, value, kind."""
    batches = (batch for change in table.stream(snapshot=snapshot) for batch in change.to_batches())
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def test_a_fresh_file_within_the_keys_of_another_hides_no_old_row() -> None:
    """The range to look into reaches to the last key of the longer one."""
    catalog = memory_catalog("lookup-within")
    table = key_table(catalog, changelog_producer="lookup")
    put(table, [{"k": 50, "v": random.Random(1).randbytes(20_000).hex()}])
    compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog)
    put(
        table,
        [{"k": 0, "v": "a"}, {"k": 50, "v": "b"}, {"k": 100, "v": "c"}],
        [{"k": 5, "v": "d"}, {"k": 9, "v": "e"}],
    )
    compact.run(compact.Job(table="d.k"), catalog)
    assert sorted(file.level for file in live_files(table)) == [4, 5]
    kinds = {(key, kind) for key, _, kind in told(table, 5)}
    assert kinds == {(0, 0), (5, 0), (9, 0), (50, 1), (50, 2), (100, 0)}


def test_files_of_changes_are_named_so() -> None:
    """Rule of the format: two options give the beginnings of the names of data and changelog files."""
    catalog = memory_catalog("lookup-names")
    table = key_table(catalog, changelog_producer="lookup", changelog_file__prefix="told-")
    put(table, [{"k": 1, "v": "a"}])
    compact.run(compact.Job(table="d.k"), catalog)
    latest = table._stores.snapshots.latest()
    assert latest is not None
    assert latest.changelog_manifest_list is not None
    manifests = table._scanner.stores.manifests
    told = manifests.read(manifests.read_list(latest.changelog_manifest_list)).files()
    assert [file.file_name[:5] for file in told] == ["told-"]
    assert [file.file_name[:5] for file in live_files(table)] == ["data-"]


class Wide(SerialExecutor):
    """Runs units one after another, and says that it could run several."""

    def __init__(self, parallelism: int) -> None:
        super().__init__()
        self._width = parallelism

    @property
    def parallelism(self) -> int:
        return self._width
