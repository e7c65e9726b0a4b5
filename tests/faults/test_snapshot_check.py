"""Mistakes between the commit check and the snapshot: nothing is published, and nothing stays behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakecore.commit.attempt import ChangeCommit
from lakecore.commit.manifest_draft import ManifestDraft
from lakecore.commit.plan import Change
from lakecore.errors import ProofError
from lakecore.jobs import compact
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.manifests import ManifestStore
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from lakecore.verify.proof import snapshot_check
from tests.support.lake import key_table, memory_catalog, put, rows_of

Change_ = Callable[[Change], Change]


def table_with_vectors() -> tuple[Any, Table]:
    """Two large files on the last level with deleted rows, small ones on level 0, and many manifests."""
    catalog = memory_catalog("snapshot-check")
    options = {
        "deletion_vectors__enabled": "true", "num_sorted_run__compaction_trigger": "2",
        "compaction__max_size_amplification_percent": "100000", "compaction__size_ratio": "0",
        "manifest__merge_min_count": "2",
    }  # fmt: skip
    table = key_table(catalog, **options)
    put(table, [{"k": k, "v": f"{k * 7919 % 10007}" * 20} for k in range(200)])
    compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog)
    put(table, [{"k": k, "v": "b"} for k in range(0, 40, 2)])
    compact.run(compact.Job(table="d.k"), catalog)
    put(table, [{"k": k, "v": "c"} for k in range(0, 40, 3)])
    return catalog, table


def list_of(spoilt: Callable[[ManifestEntries], ManifestEntries]) -> Callable[[pytest.MonkeyPatch], None]:
    right = ManifestDraft.write_list
    return lambda patch: patch.setattr(
        ManifestDraft, "write_list", lambda draft, entries: right(draft, spoilt(entries))
    )


def base_of(spoilt: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    right = ManifestDraft.merge
    return lambda patch: patch.setattr(
        ManifestDraft, "merge", lambda draft, *before: spoilt(right(draft, *before))
    )


def snapshot_of(spoilt: Callable[[Snapshot, Snapshot], Snapshot]) -> Callable[[pytest.MonkeyPatch], None]:
    right = ChangeCommit._plan

    def plan(work: ChangeCommit, view: Any) -> Any:
        planned, latest = right(work, view), view.latest
        return None if planned is None or latest is None else spoilt(planned, latest)

    return lambda patch: patch.setattr(ChangeCommit, "_plan", plan)


def indexes_of(spoilt: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    right = ManifestStore.write_index
    return lambda patch: patch.setattr(
        ManifestStore, "write_index", lambda store, files: right(store, spoilt(files))
    )


def described(**other: Any) -> Callable[[pytest.MonkeyPatch], None]:
    """The lines of new manifests are wrong."""
    right = ManifestStore.write_parts
    return lambda patch: patch.setattr(
        ManifestStore,
        "write_parts",
        lambda store, parts: tuple(replace(line, **other) for line in right(store, parts)),
    )


FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "a removed file is left out": (list_of(lambda entries: entries.select(slice(1, None))), "removes"),
    "an added file is left out": (list_of(lambda entries: entries.select(slice(0, -1))), "adds"),
    "adds come first": (
        list_of(lambda entries: entries.select(list(range(len(entries)))[::-1])), "before it removes"
    ),
    "another row count": (
        list_of(lambda entries: ManifestEntries.from_rows(
            [replace(row, file=replace(row.file, row_count=7)) for row in entries.rows()])),
        "otherwise than was proven",
    ),
    "a base without its last manifest": (base_of(lambda lines: lines[:-1]), "lacks"),
    "a base that names one twice": (base_of(lambda lines: (*lines, lines[0])), "twice"),
    "the base of the snapshot before": (
        snapshot_of(lambda new, old: replace(new, base_manifest_list=old.base_manifest_list)), "lacks"
    ),
    "the old index files": (
        snapshot_of(lambda new, old: replace(new, index_manifest=old.index_manifest)), "index files"
    ),
    "no index files": (snapshot_of(lambda new, _: replace(new, index_manifest=None)), "index files"),
    "an index file is left out": (indexes_of(lambda files: files[1:]), "index files"),
    "another count of rows": (
        snapshot_of(lambda new, _: replace(new, total_record_count=1)), "counts"
    ),
    "another id": (snapshot_of(lambda new, _: replace(new, id=new.id + 1)), "has id"),
    "a changelog that nobody made": (
        snapshot_of(lambda new, _: replace(new, changelog_manifest_list=new.delta_manifest_list)), "changelog"
    ),
    "bounds that make readers skip a manifest": (described(min_bucket=5, max_bucket=5), "describes manifest"),
}  # fmt: skip


@pytest.mark.parametrize("at_once", [snapshot_check.ENTRIES_AT_ONCE, 1], ids=["whole", "in shares"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_snapshot_that_is_not_the_commit_is_not_published(
    name: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_check, "ENTRIES_AT_ONCE", at_once)
    catalog, table = table_with_vectors()
    fault, says = FAULTS[name]
    before, rows = table._stores.snapshots.latest_id(), rows_of(table)
    job = compact.Job(table="d.k")
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        with pytest.raises(ProofError, match=says):
            compact.run(job, catalog)
    assert table._stores.snapshots.latest_id() == before
    assert rows_of(table) == rows
    assert compact.run(job, catalog).picks_done > 0
    found = fsck(table._stores.file_io, table._stores.paths, now_ms=0, deep=True).findings
    assert [f for f in found if f.kind is not FindingKind.HINT] == []


def test_a_table_whose_snapshots_name_row_ids_without_tracking_rows_is_compacted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Java writes `nextRowId` 0 for tables of any kind; the files of such a table keep their numbers, from 0 on."""
    catalog = memory_catalog("snapshot-check-row-ids")
    table = key_table(catalog)
    plan = ChangeCommit._plan

    def named(attempt: ChangeCommit, *args: Any) -> Any:
        planned = plan(attempt, *args)
        return planned and replace(planned, next_row_id=0)

    monkeypatch.setattr(ChangeCommit, "_plan", named)
    put(table, [{"k": 1, "v": "a"}])
    put(table, [{"k": 2, "v": "b"}])
    assert table._stores.snapshots.latest().next_row_id == 0
    compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog)
    assert table._stores.snapshots.latest().id == 3
    assert rows_of(table) == [(1, "a"), (2, "b")]
