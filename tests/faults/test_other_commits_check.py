"""Commits of postponed rows and of file indexes that are not what was proven: refused, nothing is published."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakecore.compact.kinds.file_index import commit as index_commit
from lakecore.compact.kinds.postpone import apply as postpone_apply
from lakecore.errors import ProofError
from lakecore.jobs import compact, rewrite_file_index
from tests.support.lake import append_table, key_table, memory_catalog, paths_of, put, rows_of

POSTPONED: dict[str, tuple[str, Any]] = {
    "a new file is left out": ("_as_compaction", lambda m: replace(m, compact_after=())),
    "a new file comes twice": ("_as_compaction", lambda m: replace(m, compact_after=m.compact_after * 2)),
    "another bucket": ("_as_compaction", lambda m: replace(m, bucket=1 - m.bucket)),
    "another number of buckets": ("_as_compaction", lambda m: replace(m, total_buckets=5)),
    "the changelog is left out": ("_as_compaction", lambda m: replace(m, compact_changelog=())),
    "rows wait on": ("_emptied_message", lambda m: replace(m, compact_before=m.compact_before[1:])),
}


@pytest.mark.parametrize("name", POSTPONED)
def test_postponed_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, change = POSTPONED[name]
    catalog = memory_catalog("other-commits")
    options = {"postpone__default_bucket_num": "2", "changelog_producer": "input"}
    table = key_table(catalog, bucket="-2", **options)
    waiting = table.with_options({"postpone.batch-write-fixed-bucket": "false"})
    put(waiting, *([{"k": k, "v": f"{n}"} for k in range(20)] for n in range(2)))
    before, latest = paths_of(table, "/bucket-"), table._stores.snapshots.latest_id()
    right = getattr(postpone_apply, function)
    with monkeypatch.context() as patch:
        patch.setattr(postpone_apply, function, lambda made: change(right(made)))
        with pytest.raises(ProofError, match="differs from what was proven"):
            compact.run(compact.Job(table="d.k"), catalog)
    assert (paths_of(table, "/bucket-"), table._stores.snapshots.latest_id()) == (before, latest)
    assert compact.run(compact.Job(table="d.k"), catalog).picks_done > 0


def test_postponed_rows_are_newer_than_those_of_their_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units are told how far the sequence numbers of the buckets go; the commit looks at the files."""
    catalog = memory_catalog("other-commits")
    table = key_table(catalog, bucket="-2", postpone__default_bucket_num="2")
    waiting = table.with_options({"postpone.batch-write-fixed-bucket": "false"})
    rows = [[{"k": k, "v": f"{n}"} for k in range(20)] for n in range(2)]
    put(waiting, rows[0])
    compact.run(compact.Job(table="d.k"), catalog)
    put(waiting, rows[1])
    latest = table._stores.snapshots.latest_id()
    right = postpone_apply.BucketState.of
    with monkeypatch.context() as patch:
        patch.setattr(postpone_apply.BucketState, "of", lambda live: replace(right(live), next_sequences={}))
        with pytest.raises(ProofError, match="has rows with numbers up to"):
            compact.run(compact.Job(table="d.k"), catalog)
    assert table._stores.snapshots.latest_id() == latest
    compact.run(compact.Job(table="d.k"), catalog)
    assert rows_of(table) == [(k, "1") for k in sorted(range(20), key=lambda k: repr((k, "1")))]


@pytest.mark.parametrize("fault", ["a file goes", "a file comes twice", "another bucket"])
def test_file_indexes(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = memory_catalog("other-commits")
    table = append_table(catalog)
    put(table, *([{"v": n, "p": "x"}] for n in range(3)))
    latest, right = table._stores.snapshots.latest_id(), index_commit._messages

    def wrong(files: Any) -> Any:
        (found,) = right(files)
        if fault == "a file goes":
            return [replace(found, compact_after=found.compact_after[1:])]
        if fault == "a file comes twice":
            return [replace(found, compact_after=found.compact_after * 2)]
        return [replace(found, bucket=7)]

    monkeypatch.setattr(index_commit, "_messages", wrong)
    job = rewrite_file_index.Job(table="d.a", options={"file-index.bloom-filter.columns": "v"})
    with pytest.raises(ProofError, match="differs from what was proven"):
        rewrite_file_index.run(job, catalog)
    assert table._stores.snapshots.latest_id() == latest
    assert paths_of(table, ".index") == set()
