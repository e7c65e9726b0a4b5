"""What the work of a window used, and when its budget is used up."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.clock import SystemClock
from lakecore.errors import InvalidInputError
from lakecore.jobs import compact
from lakecore.jobs.cost.prices import PriceList
from lakecore.jobs.runner.origin import set_origin
from lakecore.jobs.window.budget import Budget, Usage, declare_budget, usage_of_run
from lakecore.maintain.usage import UsageStore, usage_key
from tests.support.golden import golden_table

PRICES = PriceList(core_hour=0.5)


@pytest.mark.parametrize(
    ("budget", "usage", "reason"),
    [
        (Budget(), Usage(10**12, 1e9), ""),
        (Budget(bytes=100), Usage(99, 1e9), ""),
        (Budget(bytes=100), Usage(100, 0), "budget of 100 bytes"),
        (Budget(core_seconds=60), Usage(10**12, 59), ""),
        (Budget(core_seconds=60), Usage(0, 60), "budget of 60 core seconds"),
        (Budget(money=1), Usage(0, 7199), ""),
        (Budget(money=1), Usage(0, 7200), "budget of 7200 core seconds"),
        (Budget(core_seconds=60, money=1), Usage(0, 60), "budget of 60 core seconds"),
        (Budget(bytes=0), Usage(), "budget of 0 bytes"),
    ],
    ids=str,
)
def test_a_budget_ends(budget: Budget, usage: Usage, reason: str) -> None:
    assert reason in budget.reason_to_stop(usage, PRICES)
    assert bool(budget.reason_to_stop(usage, PRICES)) is bool(reason)


def test_money_needs_a_price() -> None:
    with pytest.raises(InvalidInputError, match="price_core_hour"):
        Budget(money=1).reason_to_stop(Usage(), PriceList())


def test_only_attempts_of_the_same_run_count(tmp_path: Path) -> None:
    golden_table("g1.a_pk_runs").copy_to(tmp_path)
    catalog, clock = load_catalog(str(tmp_path)), SystemClock()
    run, began_ms = {"dag": "nightly", "run": "1"}, clock.now_ms()
    set_origin(run)
    declare_budget(run, began_ms)
    try:
        report = compact.run(compact.Job(table="g1.a_pk_runs", strategy=compact.Strategy.FULL), catalog)
    finally:
        set_origin({})
    usage = usage_of_run(catalog, run, began_ms)
    assert usage.bytes == report.bytes_in > 0
    assert usage.core_seconds > 0
    assert usage_of_run(catalog, {"dag": "nightly", "run": "2"}, began_ms) == Usage()
    with pytest.raises(InvalidInputError):
        usage_of_run(catalog, {}, began_ms)


def test_a_sum_survives_strange_files_and_goes_after_a_month(tmp_path: Path) -> None:
    catalog, day_ms = load_catalog(str(tmp_path)), 86_400_000
    store = UsageStore(catalog.file_io, catalog.warehouse)
    key = usage_key({"dag": "nightly", "run": "1"}, 40 * day_ms)
    for attempt in ("a", "b", "b"):
        store.add(key, attempt, Usage(100, 1.5))
    (tmp_path / ".lakecore" / "usage" / key / "c.much.1").write_text("")
    assert store.sum(key) == Usage(200, 3.0)
    with pytest.raises(ValueError, match="no usage"):
        store.add("../ledger", "a", Usage())
    store.tidy(70 * day_ms)
    assert store.sum(key) == Usage(200, 3.0)
    store.tidy(71 * day_ms)
    assert store.sum(key) == Usage()
    assert list((tmp_path / ".lakecore" / "usage").iterdir()) == []
