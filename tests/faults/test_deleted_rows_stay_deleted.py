"""Bugs that would bring deleted rows back: what was read or is committed is compared with the deletion vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakecore.compact.engine import commit
from lakecore.compact.engine.deletion_vectors import VectorDraft
from lakecore.compact.kinds.append import apply as append_apply
from lakecore.compact.kinds.rescale import apply as rescale_apply
from lakecore.errors import ProofError
from lakecore.jobs import compact, rescale
from lakecore.jobs.compact import Strategy
from tests.support.lake import append_table, key_table, memory_catalog, put, rows_of


def append_with_deleted_rows(name: str, **options: str) -> tuple[Any, Any]:
    catalog = memory_catalog(name)
    table = append_table(catalog, deletion_vectors__enabled="true", **options)
    for part in range(6):
        put(table, [{"v": part * 10 + n, "p": "x"} for n in range(10)])
    table.delete("v < 13")
    return catalog, table


def test_an_append_compaction_that_forgets_vectors_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, table = append_with_deleted_rows("no-vectors-append")
    before = table._stores.snapshots.latest(), rows_of(table)
    right = append_apply._work_pick

    def forgets(pick: Any, *rest: Any) -> Any:
        return right(replace(pick, deletions=tuple(None for _ in pick.files)), *rest)

    monkeypatch.setattr(append_apply, "_work_pick", forgets)
    with pytest.raises(ProofError, match="60 rows were read, but its files have 47 rows"):
        compact.run(compact.Job(table="d.a", strategy=Strategy.FULL), catalog)
    assert (table._stores.snapshots.latest(), rows_of(table)) == before


def test_a_rescaling_that_forgets_vectors_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, table = append_with_deleted_rows("no-vectors-rescale", bucket="2", bucket_key="v")
    before = table._stores.snapshots.latest(), rows_of(table)
    right = rescale_apply.plan_rescale
    monkeypatch.setattr(
        rescale_apply,
        "plan_rescale",
        lambda *args: tuple(replace(pick, deletions={}) for pick in right(*args)),
    )
    with pytest.raises(ProofError, match="rows that are not deleted"):
        rescale.run(rescale.Job(table="d.a", bucket_num=3), catalog)
    assert (table._stores.snapshots.latest(), rows_of(table)) == before


def test_a_commit_without_its_index_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = memory_catalog("no-index-files")
    options = {
        "deletion_vectors__enabled": "true", "compaction__max_size_amplification_percent": "100000",
        "compaction__size_ratio": "0", "num_sorted_run__compaction_trigger": "2",
    }  # fmt: skip
    table = key_table(catalog, **options)
    put(table, [{"k": k, "v": f"{k * 7919 % 10007}" * 20} for k in range(200)])
    compact.run(compact.Job(table="d.k", strategy=Strategy.FULL), catalog)
    put(table, [{"k": k, "v": "b"} for k in range(0, 40, 2)])
    put(table, [{"k": k, "v": "c"} for k in range(0, 40, 4)])
    before = table._stores.snapshots.latest(), rows_of(table)
    monkeypatch.setattr(commit.VectorUpdates, "draft", _without_messages(commit.VectorUpdates.draft))
    with pytest.raises(ProofError, match="the commit adds 0 index files of the bucket"):
        compact.run(compact.Job(table="d.k"), catalog)
    assert (table._stores.snapshots.latest(), rows_of(table)) == before


def _without_messages(right: Any) -> Any:
    def draft(upkeep: Any, picks: Any) -> VectorDraft:
        found: VectorDraft = right(upkeep, picks)
        return replace(found, messages=())

    return draft
