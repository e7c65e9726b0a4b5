"""The maintenance DAGs in a real Airflow, on tables that Java Paimon wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakecore.metadata.snapshot import CommitKind
from lakecore.table import Table
from tests.dags.conftest import AirflowLake, rows, table_of
from tests.support.golden import GoldenTable, View, golden_table, set_option

pytestmark = pytest.mark.slow

LATEST = View("rows.jsonl")


def expected(golden: str) -> list[str]:
    table: GoldenTable = golden_table(golden)
    return table.rows(LATEST)


def by_table(airflow: AirflowLake, tasks: list[dict[str, Any]]) -> dict[str, tuple[str, Any]]:
    """State and report (or the reason of a refusal) of each mapped task."""
    mapped = [task for task in tasks if task["task_id"] == "compact"]
    return {
        table_of(task): (
            task["state"],
            airflow.api.xcom(task) or airflow.api.xcom(task, "refused"),
        )
        for task in mapped
    }


def compactions(table: Table) -> list[int]:
    """Ids of the snapshots that compactions committed."""
    found = (table._stores.snapshots.load(snapshot_id) for snapshot_id in table._stores.snapshots.list_ids())
    return [snapshot.id for snapshot in found if snapshot.commit_kind is CommitKind.COMPACT]


def test_nightly_compacts_what_it_can_and_says_why_not(airflow: AirflowLake) -> None:
    names = ("g1.a_pk_dedup_l0", "g1.a_old082_append", "g1.a_pk_thin")
    keyed, _, refused = (airflow.place(name, "night") for name in names)
    set_option(Path(refused.path), "data-file.external-paths", "s3://elsewhere/x")
    set_option(Path(refused.path), "data-file.external-paths.strategy", "round-robin")
    conf = {"database": "night", "engine": "local", "until": ""}
    state, tasks = airflow.run("lakecore_nightly", conf)
    assert state == "success"
    found = by_table(airflow, tasks)
    assert {name: state for name, (state, _) in found.items()} == {
        "night.a_pk_dedup_l0": "success",
        "night.a_old082_append": "success",
        "night.a_pk_thin": "skipped",
    }
    assert "external-paths" in found[refused.name][1]
    report = found[keyed.name][1]
    assert report["before"]["sorted_runs"] == 8 > report["after"]["sorted_runs"]
    assert "input rows =" in report["proof"]
    for name in names[:2]:
        assert rows(airflow.load_table(f"night.{name[3:]}")) == expected(name)

    snapshots = {name: airflow.load_table(name)._stores.snapshots.latest_id() for name in found}
    state, tasks = airflow.run("lakecore_nightly", conf)
    again = by_table(airflow, tasks)
    assert [state for state, _ in again.values()].count("success") == 2
    assert all(report["nothing_to_do"] for state, report in again.values() if state == "success")
    assert {name: airflow.load_table(name)._stores.snapshots.latest_id() for name in found} == snapshots


def test_nightly_on_spark(airflow: AirflowLake) -> None:
    table = airflow.place("g1.a_old090_pk", "spark")
    airflow.place("g1.a_pk_dedup_l0", "spark")
    conf = {"database": "spark", "include": "a_old*", "strategy": "full", "engine": "spark", "proof": "full"}
    state, tasks = airflow.run("lakecore_nightly", conf)
    assert state == "success"
    [(name, (_, report))] = by_table(airflow, tasks).items()
    assert (name, report["engine"], report["error"]) == (table.name, "spark", None)
    assert report["after"]["sorted_runs"] < report["before"]["sorted_runs"]
    assert rows(airflow.load_table(name)) == expected("g1.a_old090_pk")


def test_a_window_that_is_over_leaves_the_work_and_says_so(airflow: AirflowLake) -> None:
    table = airflow.place("g1.a_pk_dedup_l0", "late")
    conf = {"database": "late", "engine": "spark", "until": "2020-01-01T05:00:00Z"}
    state, tasks = airflow.run("lakecore_nightly", conf)
    [task] = [one for one in tasks if one["task_id"] == "compact"]
    report = airflow.api.xcom(task, "report")
    assert (state, task["state"], report["picks_done"], report["picks_left"]) == ("success", "skipped", 0, 1)
    assert task["rendered_map_index"] == f"{table.name} · picks left: 1"
    assert compactions(table) == []


def test_a_try_that_fails_after_its_commit_is_not_repeated(airflow: AirflowLake) -> None:
    table = airflow.place("g1.a_pk_overwrite", "retry")
    state, [task] = airflow.run("lakecore_lost_answer", {"table": table.name})
    assert (state, task["try_number"]) == ("success", 2)
    [snapshot] = compactions(table)
    report = airflow.api.xcom(task)
    assert report["snapshot"] == snapshot, "the second try reports the commit of the first"
    assert report["nothing_to_do"]
    committed = table._stores.snapshots.load(snapshot)
    assert committed.commit_user == "lakecore-lakecore_lost_answer-compact"
    assert rows(table) == expected("g1.a_pk_overwrite")

    def told() -> list[dict[str, Any]]:
        events = airflow.lineage("lakecore_lost_answer.compact")
        return [one for event in events if event["eventType"] == "COMPLETE" for one in event["inputs"]]

    [read] = airflow.api.wait("the lineage of the task", told, 30)
    assert read["name"] == table.path
    assert read["facets"]["version"]["datasetVersion"] == str(snapshot)


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_killed_compaction_leaves_nothing_behind(airflow: AirflowLake, engine: str) -> None:
    table = airflow.place("g1.a_pk_dedup_l0", f"kill_{engine}")
    before = set(data_files(table))
    run_id = airflow.api.trigger("lakecore_slow", {"table": table.name, "engine": engine})
    airflow.api.wait("a unit's output", lambda: set(data_files(table)) - before, 120)
    path = f"/api/v2/dags/lakecore_slow/dagRuns/{run_id}/taskInstances/compact"
    airflow.api.call("PATCH", path, {"new_state": "failed"})
    airflow.api.wait("the output to go", lambda: set(data_files(table)) == before, 60)
    assert airflow.end_of("lakecore_slow", run_id) == "failed"
    assert compactions(table) == []
    assert rows(table) == expected("g1.a_pk_dedup_l0")


def data_files(table: Table) -> Iterator[str]:
    return (str(path) for path in Path(table.path).glob("bucket-*/*"))


def test_backfill_compacts_past_partitions_and_a_second_one_changes_nothing(airflow: AirflowLake) -> None:
    table = airflow.place("g1.a_pk_dedup_b3_part", "past")
    backfill = {
        "dag_id": "lakecore_partition",
        "from_date": "2024-01-02T00:00:00Z",  # of the times that runs start: at 01:30 for the day before
        "to_date": "2024-01-03T12:00:00Z",
        "dag_run_conf": {"include": table.name, "engine": "local"},
        "reprocess_behavior": "completed",
    }
    reports = run_backfill(airflow, backfill)
    assert sorted(reports) == ["2024-01-01", "2024-01-02"]
    assert all(report["picks_done"] == 3 for report in reports.values())
    assert len(compactions(table)) == 3, "Java's, and one for each day"
    assert rows(table) == expected("g1.a_pk_dedup_b3_part")

    again = run_backfill(airflow, backfill)
    assert all(report["nothing_to_do"] for report in again.values())
    assert len(compactions(table)) == 3


def run_backfill(airflow: AirflowLake, request: dict[str, Any]) -> dict[str, Any]:
    """Reports by day."""
    return {day[:10]: airflow.api.xcom(compacting(tasks)) for day, tasks in airflow.backfill(request)}


def compacting(tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """The one task that compacts."""
    [task] = [task for task in tasks if task["task_id"] == "compact"]
    return task


def test_a_run_without_a_logical_date_takes_its_day_or_the_given_one(airflow: AirflowLake) -> None:
    table = airflow.place("g1.a_pk_dedup_b3_part", "manual")
    conf = {"include": table.name, "engine": "local"}
    state, tasks = airflow.run("lakecore_partition", conf)
    assert (state, airflow.api.xcom(compacting(tasks))["nothing_to_do"]) == ("success", True), (
        "there is no partition of today"
    )
    state, tasks = airflow.run("lakecore_partition", conf | {"day": "2024-01-01"})
    assert (state, airflow.api.xcom(compacting(tasks))["picks_done"]) == ("success", 3)
