"""Days and hours at which nothing begins, what is left of a run then, and when Airflow stops a task."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pendulum
import pytest
from airflow.timetables.base import DataInterval, TimeRestriction

from lakecore_airflow.airflow_names import AirflowFailException, AirflowSkipException
from lakecore_airflow.dags import SettingsError, lakecore_dags
from lakecore_airflow.lake import dedicated_compaction
from lakecore_airflow.lake.compact_database import CompactDatabaseOperator
from lakecore_airflow.lake.dedicated_compaction import DedicatedCompactionOperator
from lakecore_airflow.lake.tables import ListTablesOperator
from lakecore_airflow.operators.compact import CompactTableOperator
from lakecore_airflow.policy.maintain import MaintainTableOperator, PlanMaintenanceOperator
from lakecore_airflow.timetables import OpenDaysTimetable
from tests.operators.conftest import context
from tests.support.airflow_dags import DagSerialization
from tests.support.golden import GoldenTable

TABLE = "g1.a_pk_dedup_l0"
OTHER = "g1.a_pk_runs"
ALWAYS = [{"days": "Mon-Sun", "why": "stock-taking"}]
NEVER = [{"days": "2001-01-01"}]
POLICY = [{"tables": ["*"], "chores": {"compact": {}}}]


@pytest.fixture
def table(lake: Path, golden: Callable[[str], GoldenTable]) -> str:
    golden(TABLE).copy_to(lake)
    golden(OTHER).copy_to(lake)
    return TABLE


def begin(operator: Any, **run: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    found = context(**{"start_date": datetime.now(UTC) - timedelta(minutes=1)} | run)
    operator.pre_execute(found)
    return operator.execute(found), found


@pytest.mark.parametrize("blackouts", [ALWAYS, json.dumps(ALWAYS), str(ALWAYS)], ids=type)
def test_a_run_during_a_blackout_is_skipped_and_told_why(table: str, blackouts: Any) -> None:
    for operator in (
        ListTablesOperator(task_id="tables", blackouts=blackouts),
        PlanMaintenanceOperator(task_id="plan", policy=POLICY, blackouts=blackouts),
    ):
        with pytest.raises(
            AirflowSkipException, match=r"black-out 'Mon-Sun \(stock-taking\)'.*param blackouts"
        ):
            operator.execute(context())


def test_other_days_and_dry_runs_are_free(table: str) -> None:
    assert len(ListTablesOperator(task_id="tables", blackouts=NEVER).execute(context())) == 2
    assert len(ListTablesOperator(task_id="tables", blackouts="null").execute(context())) == 2
    plan = PlanMaintenanceOperator(task_id="plan", policy=POLICY, blackouts=ALWAYS, dry_run=True)
    assert len(plan.execute(context())) == 2
    report, _ = begin(compaction(blackouts=ALWAYS, dry_run=True))
    assert report["planned_count"] > 0


def compaction(table: str = TABLE, **parameters: Any) -> CompactTableOperator:
    values = {"task_id": "compact", "table": table, "strategy": "full", "engine": "local"} | parameters
    return CompactTableOperator(**values)


def policy(**parameters: Any) -> MaintainTableOperator:
    chores = {"compact": {"strategy": "full"}, "expire-snapshots": {}}
    return MaintainTableOperator(task_id="maintain", table=TABLE, chores=chores, **parameters)


def database(**parameters: Any) -> CompactDatabaseOperator:
    values = {"engine": "local", "strategy": "full", "max_concurrent_tables": 1} | parameters
    return CompactDatabaseOperator(task_id="compact", **values)


@pytest.mark.parametrize("make", [compaction, policy, database])
@pytest.mark.parametrize(
    "limit",
    [{"blackouts": ALWAYS}, {"budget_bytes": "0"}, {"until": "2020-01-01T00:00:00Z"}],
    ids=lambda limit: next(iter(limit)),
)
def test_each_operator_begins_nothing_and_ends_as_was_asked_for(
    table: str, make: Callable[..., Any], limit: dict[str, Any]
) -> None:
    reason = {"blackouts": "stock-taking", "budget_bytes": "budget of 0 bytes", "until": "window"}
    with pytest.raises(AirflowSkipException, match=reason[next(iter(limit))]):
        begin(make(on_window_end="skip", **limit))
    with pytest.raises(AirflowFailException, match="left"):
        begin(make(on_window_end="fail", **limit))
    _, found = begin(make(**limit))
    assert found["ti"].xcoms["report"]
    report, _ = begin(make(blackouts=NEVER, budget_bytes="1 tb", until="2999-01-01T00:00:00Z"))
    assert report.get("changed") or report.get("done") or report["picks_done"], "nothing was begun before"


def test_a_policy_stops_within_the_table_when_the_budget_of_the_run_is_used_up(table: str) -> None:
    report, _ = begin(policy(budget_bytes="1 kb"))
    assert [one["job"] for one in report["done"]] == ["compact"]
    assert report["left"] == ["expire-snapshots"]
    assert "budget of 1024 bytes" in report["left_because"]
    with pytest.raises(AirflowSkipException, match="budget of 1024 bytes"):
        begin(compaction(OTHER, budget_bytes="1 kb", on_window_end="skip"))
    report, _ = begin(compaction(OTHER, budget_bytes="1 kb"), run_id="run2")
    assert report["picks_done"] > 0


def test_a_database_stops_after_the_table_that_used_up_the_budget(table: str) -> None:
    report, found = begin(database(budget_bytes="1 kb"))
    assert (report["changed"], report["skipped"]) == (1, 1)
    assert "budget of 1024 bytes" in report["busy"][0]["why"]
    assert found["ti"].xcoms["report"] == report


def test_the_next_blackout_ends_the_window(table: str) -> None:
    soon = pendulum.now("UTC").add(hours=1)
    blackout = {"days": soon.format("YYYY-MM-DD"), "hours": f"{soon.format('HH:mm')}-24:00"}
    operator = compaction(blackouts=[blackout], until="2999-01-01T00:00:00Z")
    from lakecore_airflow.hooks import LakeHook

    window = operator.open_window(context(), LakeHook("lake_default"), dry_run=False)
    assert window.end_ms == int(soon.start_of("minute").timestamp() * 1000)
    assert window.reason_to_stop() == ""


@pytest.mark.parametrize(
    ("own", "until_s", "limit_s"),
    [(None, 3600, 3600 + 1800), (timedelta(hours=1), 3600, 3600), (None, -7200, 60)],
)
def test_airflow_stops_a_task_after_its_window_and_the_grace(
    lake: Path, own: timedelta | None, until_s: int, limit_s: int
) -> None:
    until = (datetime.now(UTC) + timedelta(seconds=until_s)).isoformat()
    operator = compaction(until=until, window_grace="30 min", execution_timeout=own)
    operator.pre_execute(context())
    assert operator.execution_timeout is not None
    assert abs(operator.execution_timeout.total_seconds() - limit_s) < 30
    operator = compaction(until=until, execution_timeout=own)
    operator.pre_execute(context())
    assert operator.execution_timeout == own


def test_the_timetable_leaves_out_blackouts() -> None:
    timetable = OpenDaysTimetable.deserialize(
        OpenDaysTimetable("0 2 * * *", [{"days": "Sat,Sun"}, {"days": "2026-11-30"}]).serialize()
    )
    last = DataInterval(pendulum.datetime(2026, 11, 26, 2), pendulum.datetime(2026, 11, 27, 2))  # a Friday
    restriction = TimeRestriction(earliest=pendulum.datetime(2020, 1, 1), latest=None, catchup=True)
    info = timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
    assert info is not None
    assert info.run_after == pendulum.datetime(2026, 12, 1, 2)
    assert info.data_interval.start == pendulum.datetime(2026, 11, 30, 2)
    closed = OpenDaysTimetable("0 2 * * *", [{"days": "Mon-Sun"}])
    assert closed.next_dagrun_info(last_automated_data_interval=last, restriction=restriction) is None


def test_a_long_blackout_does_not_end_a_schedule_of_minutes() -> None:
    timetable = OpenDaysTimetable("*/5 * * * *", [{"days": "12-24..01-02"}, {"days": "2027-01-03"}])
    last = DataInterval.exact(pendulum.datetime(2026, 12, 23, 23, 55))
    restriction = TimeRestriction(earliest=pendulum.datetime(2020, 1, 1), latest=None, catchup=True)
    info = timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
    assert info is not None
    assert info.run_after == pendulum.datetime(2027, 1, 4), "the first minute after them, 3168 times later"


def test_a_compactor_does_not_begin_in_a_blackout_and_ends_with_the_next(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AirflowSkipException, match="nothing is begun"):
        DedicatedCompactionOperator(task_id="c", engine="local", blackouts=ALWAYS).execute(context())
    run_times: list[timedelta] = []

    def ended(run_for: timedelta) -> Any:
        run_times.append(run_for)
        raise TimeoutError

    monkeypatch.setattr(dedicated_compaction, "stopped_after", ended)
    # tomorrow may begin in less than the hour that the last one asks for
    in_two_days = (datetime.now(UTC) + timedelta(days=2)).date()
    for run_for in (None, "90 d", "1 h"):
        operator = DedicatedCompactionOperator(
            task_id="c", engine="local", run_for=run_for, blackouts=[{"days": str(in_two_days)}]
        )
        with pytest.raises(TimeoutError):
            operator.execute(context())
    assert all(timedelta(days=1) < one <= timedelta(days=2) for one in run_times[:2])
    assert run_times[2] == timedelta(hours=1)
    dag = lakecore_dags("compactor", settings={"blackouts": [{"days": "Sun"}]})["lakecore_compactor"]
    assert isinstance(dag.timetable, OpenDaysTimetable)
    task = dag.get_task("follow")
    task.render_template_fields({"params": {name: dag.params[name] for name in dag.params}})
    assert json.loads(task.blackouts) == [{"days": "Sun"}]


def test_the_calendar_of_all_dags_is_in_one_place() -> None:
    settings = {
        "blackouts": [{"days": date(2026, 12, 24), "why": "it's Christmas"}],
        "partition": {"blackouts": []},
        "nightly": {"deadline": "195 min", "deadline_callback": "company.alerts.late"},
    }
    dags = lakecore_dags(settings=settings)
    assert isinstance(dags["lakecore_nightly"].timetable, OpenDaysTimetable)
    assert isinstance(dags["lakecore_maintenance"].timetable, OpenDaysTimetable)
    assert not isinstance(dags["lakecore_partition"].timetable, OpenDaysTimetable)
    raw = DagSerialization.to_dict(dags["lakecore_nightly"])
    DagSerialization.validate_schema(raw)
    again = DagSerialization.from_dict(raw)
    assert again.timetable.summary == "0 2 * * *, except for black-outs"
    assert "company.alerts.late" in json.dumps(raw)
    assert dags["lakecore_maintenance"].deadline is None
    param = dags["lakecore_nightly"].params["blackouts"]
    task = dags["lakecore_nightly"].get_task("tables")
    task.render_template_fields({"params": {**dags["lakecore_nightly"].params, "blackouts": param}})
    assert json.loads(task.blackouts) == [{"days": "2026-12-24", "why": "it's Christmas"}]


@pytest.mark.parametrize("blackouts", [None, ALWAYS])
def test_the_maintenance_renders_black_outs_as_native_values(lake: Path, blackouts: Any) -> None:
    task = lakecore_dags("maintenance")["lakecore_maintenance"].get_task("plan")
    params = {"policy": POLICY, "dry_run": None, "blackouts": blackouts, "lake_conn_id": "lake_default"}
    task.render_template_fields({"params": params, "var": {"value": {}}})
    if blackouts is None:
        assert task.execute(context()) == []
    else:
        with pytest.raises(AirflowSkipException, match="stock-taking"):
            task.execute(context())


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"blackouts": [{"day": "Mon"}]}, "airflow.nightly: a black-out has no 'day'"),
        ({"blackouts": "Mon"}, "write a list"),
        ({"nightly": {"deadline": "soon"}}, "deadline 'soon'"),
    ],
    ids=str,
)
def test_a_wrong_calendar_or_deadline_is_an_import_error(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        lakecore_dags("nightly", settings=settings)
