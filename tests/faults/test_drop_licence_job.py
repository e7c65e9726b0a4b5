"""A planner that lets deletes go too early: refused before a unit runs, for the pick that claims it alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.compact.engine import driver
from lakecore.compact.kinds.clustered_primary_key import apply as clustered_apply
from lakecore.compact.kinds.primary_key import plan
from lakecore.compact.kinds.primary_key import run as keyed_run
from lakecore.compact.kinds.primary_key.lookup import pick as leveled
from lakecore.errors import ProofError
from lakecore.jobs import compact
from lakecore.jobs.compact import Strategy
from lakecore.table import Table
from tests.support.lake import key_table, memory_catalog, paths_of, put, rows_of

TALL = {"compaction__max_size_amplification_percent": "100000", "compaction__size_ratio": "0"}
RUNS = {"num-sorted-run.compaction-trigger": "2", "num-levels": "6"}
VECTORS = {"deletion_vectors__enabled": "true"}
LOOKUP = {"changelog_producer": "lookup"}
SUMS = {"merge_engine": "aggregation", "aggregation__remove_record_on_delete": "true"}
Fault = Callable[[pytest.MonkeyPatch], None]


def always(patch: pytest.MonkeyPatch) -> None:
    """`drops_deletes` says yes whatever lies above."""
    patch.setattr(plan, "drops_deletes", lambda runs, level: True)


def claims(patch: pytest.MonkeyPatch) -> None:
    """Every pick of the plan says that its deletes may go."""
    right = plan.plan_bucket

    def wrong(*args: Any) -> Any:
        found = right(*args)
        return None if found is None else replace(found, drop_deletes=True)

    patch.setattr(plan, "plan_bucket", wrong)


def asks_nobody(patch: pytest.MonkeyPatch) -> None:
    """Deletes go because rows are marked, but no file is asked."""
    patch.setattr(leveled.LeveledPick, "_overlapping", lambda self, fresh: ())


def forgets_a_level(patch: pytest.MonkeyPatch) -> None:
    right = plan._above
    patch.setattr(plan, "_above", lambda runs, chosen: right(runs, chosen)[1:])


CASES: dict[str, tuple[dict[str, str], Fault]] = {
    "plain, always": ({}, always),
    "plain, claimed": ({}, claims),
    "lookup, always": (LOOKUP, always),
    "full-compaction, claimed": ({"changelog_producer": "full-compaction"}, claims),
    "sums, always": (SUMS, always),
    "vectors, nobody is asked": (VECTORS, asks_nobody),
    "vectors, a level is not asked": (VECTORS, forgets_a_level),
}


def tall(catalog: FilesystemCatalog, buckets: int = 1, **options: str) -> Table:
    """Rows on level 5; deletes of some of them on level 0."""
    table = key_table(catalog, bucket=str(buckets), **TALL, **options)
    put(table, [{"k": k, "v": f"{k * 2654435761 % 2**32}" * 40} for k in range(200)])
    compact.run(compact.Job(table="d.k", strategy=Strategy.FULL), catalog)
    put(
        table, [{"k": k, "v": "", "_kind": "-D"} for k in range(9)], [{"k": k, "v": ""} for k in range(9, 19)]
    )
    return table


@pytest.mark.parametrize("name", CASES)
def test_a_claim_without_a_licence_is_refused_before_a_unit_runs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, fault = CASES[name]
    catalog = memory_catalog("drop-licence")
    table = tall(catalog, **options)
    files, latest = paths_of(table, "bucket-"), table._stores.snapshots.latest_id()
    job = compact.Job(table="d.k", options=RUNS)
    with monkeypatch.context() as patch:
        fault(patch)
        patch.setattr(keyed_run, "run_unit", None)
        with pytest.raises(ProofError, match=r"its deletes may not be dropped: .* level 5 stays"):
            compact.run(job, catalog)
    assert (paths_of(table, "bucket-"), table._stores.snapshots.latest_id()) == (files, latest)
    assert compact.run(job, catalog).picks_done == 1
    compact.run(compact.Job(table="d.k", strategy=Strategy.FULL), catalog)
    assert len(rows_of(table)) == 191


def test_other_buckets_are_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner claims too much for one bucket of three."""
    catalog = memory_catalog("drop-licence")
    table = tall(catalog, buckets=3)
    right = plan.plan_bucket

    def wrong(place: Any, *args: Any) -> Any:
        found = right(place, *args)
        return found if found is None or place.bucket != 1 else replace(found, drop_deletes=True)

    monkeypatch.setattr(plan, "plan_bucket", wrong)
    (report,) = compact.run_many([compact.Job(table="d.k", options=RUNS)], catalog)
    assert (report.error_class, report.picks_done, report.picks_left) == ("ProofError", 2, 1)
    assert "fsck --deep d.k" in (report.error or "")
    assert len(rows_of(table)) == 191


def test_a_unit_without_a_licence_lets_no_delete_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver forgets to ask: certifiers do not go by the planner's flag."""
    for options in ({}, LOOKUP, VECTORS, SUMS):
        catalog = memory_catalog("drop-licence")
        tall(catalog, **options)
        with monkeypatch.context() as patch:
            patch.setattr(driver, "licensed", lambda picks, *_: (tuple(picks), ()))
            with pytest.raises(ProofError, match=r"delete was dropped|has no result"):
                compact.run(compact.Job(table="d.k", strategy=Strategy.FULL), catalog)


def test_files_in_another_order_drop_deletes_only_where_rows_were_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalog = memory_catalog("drop-licence")
    options = {"pk_clustering_override": "true", "clustering__columns": "v", **VECTORS}
    table = tall(catalog, **options)
    right = clustered_apply.LookupMerge
    job = compact.Job(table="d.k")
    with monkeypatch.context() as patch:
        patch.setattr(clustered_apply, "LookupMerge", lambda **fields: right(**{**fields, "above": ()}))
        with pytest.raises(ProofError, match="its deletes may not be dropped"):
            compact.run(job, catalog)
    compact.run(job, catalog)
    assert len(rows_of(table)) == 191
    assert keyed_run.run_unit is not None


@pytest.mark.parametrize("options", [LOOKUP, {"merge_engine": "first-row"}])
def test_a_level_that_is_not_asked_for_older_rows_is_noticed(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """New rows only, so no delete is dropped: what is wrong are the changes, or which row counts."""
    catalog = memory_catalog("asked")
    table = key_table(catalog, **TALL, **options)
    put(table, [{"k": k, "v": "old" * 200} for k in range(200)])
    compact.run(compact.Job(table="d.k", strategy=Strategy.FULL), catalog)
    put(table, [{"k": k, "v": "new"} for k in range(9)], [{"k": k, "v": "new"} for k in range(3, 19)])
    latest, job = table._stores.snapshots.latest_id(), compact.Job(table="d.k", options=RUNS)
    with monkeypatch.context() as patch:
        forgets_a_level(patch)
        with pytest.raises(
            ProofError, match="on level 5 may hold older rows of its keys, and is not looked up"
        ):
            compact.run(job, catalog)
    assert table._stores.snapshots.latest_id() == latest
    assert compact.run(job, catalog).picks_done == 1


def test_a_file_that_moves_untold_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = memory_catalog("told")
    table = key_table(catalog, **TALL, **LOOKUP)
    put(table, [{"k": k, "v": "new"} for k in range(9)])
    right = plan.divide

    def quiet(*args: Any) -> Any:
        return replace(right(*args), announced=())

    with monkeypatch.context() as patch:
        patch.setattr(plan, "divide", quiet)
        with pytest.raises(ProofError, match="leaves level 0, and its rows are not in the changelog"):
            compact.run(compact.Job(table="d.k", strategy=Strategy.FULL), catalog)
    assert compact.run(compact.Job(table="d.k", strategy=Strategy.FULL), catalog).picks_done == 1
