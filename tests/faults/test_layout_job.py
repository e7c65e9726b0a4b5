"""A planner that puts files where they do not belong: refused before a unit runs."""

from __future__ import annotations

from typing import Any

import pytest

from lakecore.compact.kinds.primary_key import plan
from lakecore.errors import ProofError
from lakecore.jobs import compact
from lakecore.jobs.compact import Strategy
from lakecore.lsm import append
from lakecore.lsm.rewrites import PickWork
from tests.support.lake import append_table, key_table, memory_catalog, paths_of, put, rows_of


def test_files_that_share_keys_do_not_move_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = memory_catalog("layout")
    table = key_table(catalog)
    put(table, [{"k": k, "v": "old"} for k in range(9)], [{"k": k, "v": "new"} for k in range(3, 12)])
    files, job = paths_of(table, "bucket-"), compact.Job(table="d.k", strategy=Strategy.FULL)

    def one_by_one(files: Any, *_: Any) -> PickWork:
        return PickWork((), tuple(files))

    with monkeypatch.context() as patch:
        patch.setattr(plan, "divide", one_by_one)
        with pytest.raises(ProofError, match="share keys, but would be separate files of level 5"):
            compact.run(job, catalog)
    assert paths_of(table, "bucket-") == files
    assert compact.run(job, catalog).picks_done == 1
    assert len(rows_of(table)) == 12


def test_rows_of_a_bucket_are_joined_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = memory_catalog("layout")
    table = append_table(catalog, bucket="1", bucket_key="v")
    put(table, *([{"v": k, "p": "x" * (9 - k)}] for k in range(6)))
    job = compact.Job(table="d.a", strategy=Strategy.FULL)
    before, right = rows_of(table), append.pick_full_ordered
    with monkeypatch.context() as patch:
        patch.setattr(append, "pick_full_ordered", lambda *args: tuple(reversed(right(*args) or ())))
        with pytest.raises(ProofError, match="come before those of"):
            compact.run(job, catalog)
    assert compact.run(job, catalog).picks_done == 1
    assert rows_of(table) == before
