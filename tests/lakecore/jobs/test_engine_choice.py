"""Where a compaction runs: in this process, or on Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import UnavailableError
from lakecore.executor import SerialExecutor
from lakecore.jobs import compact
from lakecore.jobs.compact.engine_choice import (
    MOST_TABLES,
    SPARK_STARTS_S,
    choose_engine,
    engine_for,
    engine_for_many,
)
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


def java() -> None:
    """Spark can start."""


@dataclass
class MemoryLake:
    """A lake, and the tables that were planned in it."""

    catalog: FilesystemCatalog
    planned: list[str]


def lake_of(
    tables: int, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> tuple[MemoryLake, list[compact.Job]]:
    """A lake whose tables need a compaction of so many seconds each."""
    catalog = memory_catalog()
    names = [f"d.t{number}" for number in range(tables)]
    definition = {"columns": ["k BIGINT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    for name in names:
        put(catalog.create_table(name, definition), *CATALOG_ROWS)
    run, planned_names = compact.run, list[str]()

    def dry_run(job: compact.Job, *rest: Any) -> compact.Report:
        assert job.dry_run
        planned_names.append(job.table)
        report = run(job, *rest)
        if report.forecast is None:
            return report
        return replace(report, forecast=replace(report.forecast, seconds=seconds))

    monkeypatch.setattr(compact, "run", dry_run)
    return MemoryLake(catalog, planned_names), [compact.Job(table=name) for name in names]


def test_small_tables_together_may_be_worth_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, jobs = lake_of(5, monkeypatch, seconds=2.5)
    few = engine_for_many(jobs[:2], lake.catalog, lake.catalog.clock, java)
    assert (few.engine, few.reason[:21]) == ("local", "the forecast is 5.0 s")
    lake.planned.clear()
    assert engine_for_many(jobs, lake.catalog, lake.catalog.clock, java).engine == "spark"
    assert lake.planned == ["d.t0", "d.t1", "d.t2"], "the others are planned once only"


def test_tables_that_cannot_be_planned_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, jobs = lake_of(1, monkeypatch, seconds=100)
    missing = compact.Job(table="d.missing")
    assert (
        engine_for_many([missing], lake.catalog, lake.catalog.clock, java).reason == "there is nothing to do"
    )
    assert engine_for_many([missing, *jobs], lake.catalog, lake.catalog.clock, java).engine == "spark"


def test_many_tables_are_not_planned_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, jobs = lake_of(1, monkeypatch, seconds=100)
    many = jobs * (MOST_TABLES + 1)
    assert engine_for_many(many, lake.catalog, lake.catalog.clock, java).engine == "spark"
    assert lake.planned == []

    def no_java() -> None:
        raise UnavailableError("there is no java")

    assert engine_for_many(many, lake.catalog, lake.catalog.clock, no_java).engine == "local"
    assert engine_for_many(many[:-1], lake.catalog, lake.catalog.clock, java).engine == "spark"
    assert lake.planned == ["d.t0"]
