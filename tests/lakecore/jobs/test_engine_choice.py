"""Where a compaction runs: in this process, or on Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakecore.errors import UnavailableError
from lakecore.executor import SerialExecutor
from lakecore.jobs import compact
from lakecore.jobs.compact.engine_choice import SPARK_STARTS_S, choose_engine, engine_for
from tests.support.lake import key_table, memory_catalog, put

CATALOG_ROWS = [[{"k": n, "v": "x"}] for n in range(8)]


def planned(seconds: float) -> compact.Report:
    catalog = memory_catalog()
    table = key_table(catalog)
    put(table, *CATALOG_ROWS)
    report = compact.run(
        compact.Job(table=table.name, dry_run=True), catalog, SerialExecutor(), catalog.clock
    )
    assert report.forecast is not None
    return replace(report, forecast=replace(report.forecast, seconds=seconds))


@pytest.mark.parametrize(
    ("seconds", "java_problem", "engine", "reason"),
    [
        (0.3, "", "local", "the forecast is 0.3 s"),
        (SPARK_STARTS_S, "", "local", "a Spark session alone takes some 6 s"),
        (SPARK_STARTS_S + 0.1, "", "spark", "the forecast for one process is 6 s"),
        (3600, "", "spark", "3600 s"),
        (3600, "there is no java", "local", "Spark cannot start here: there is no java"),
    ],
)
def test_the_sooner_engine_is_chosen(seconds: float, java_problem: str, engine: str, reason: str) -> None:
    choice = choose_engine(planned(seconds), java_problem)
    assert choice.engine == engine
    assert reason in choice.reason


def test_a_table_with_nothing_to_do_asks_for_no_java() -> None:
    def no_java() -> None:
        raise UnavailableError("there is no java")

    catalog = memory_catalog()
    table = key_table(catalog)
    job = compact.Job(table=table.name)
    assert engine_for(job, catalog, catalog.clock, lambda: pytest.fail("not needed")).engine == "local"
    put(table, *CATALOG_ROWS)
    snapshots = table._stores.snapshots.list_ids()
    assert "no java" in engine_for(job, catalog, catalog.clock, no_java).reason
    assert table._stores.snapshots.list_ids() == snapshots, "a dry run"
