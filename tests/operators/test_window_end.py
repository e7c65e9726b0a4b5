"""What tasks leave when their window is over or their budget used up, and how they end then."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, StrictUndefined

import lakecore
from lakecore.jobs.attempts import AttemptFilter, attempts_of
from lakecore_airflow.airflow_names import AirflowFailException, AirflowSkipException
from lakecore_airflow.operators.compact import CompactTableOperator
from lakecore_airflow.policy.maintain import MaintainTableOperator
from lakecore_airflow.reports.outcome import LABEL
from tests.operators.conftest import context
from tests.support.golden import GoldenTable

TABLE = "g1.a_pk_dedup_l0"
OTHER = "g1.a_pk_runs"
OVER = "2020-01-01T00:00:00Z"


@pytest.fixture
def table(lake: Path, golden: Callable[[str], GoldenTable]) -> str:
    golden(TABLE).copy_to(lake)
    golden(OTHER).copy_to(lake)
    return TABLE


def compaction(table: str = TABLE, **parameters: Any) -> CompactTableOperator:
    values = {"task_id": "compact", "table": table, "strategy": "full", "engine": "local"} | parameters
    return CompactTableOperator(**values)


def run(operator: Any, **run: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    found = context(**{"start_date": datetime.now(UTC) - timedelta(minutes=1)} | run)
    operator.pre_execute(found)
    return operator.execute(found), found


def label(operator: Any, found: dict[str, Any]) -> str:
    text = Environment(undefined=StrictUndefined).from_string(LABEL)
    return text.render(found | {"task": operator})


def test_the_label_of_a_task_names_its_table_and_then_its_outcome(table: str) -> None:
    operator = compaction()
    assert label(operator, {}) == TABLE
    report, found = run(operator)
    assert (
        label(operator, found) == f"{TABLE} · {report['before']['files']} → {report['after']['files']} files"
    )
    _, found = run(compaction(), run_id="run2")
    assert label(operator, found) == f"{TABLE} · nothing to do"


@pytest.mark.parametrize(
    ("answer", "error"),
    [("success", None), ("skip", AirflowSkipException), ("fail", AirflowFailException)],
)
def test_a_task_that_its_window_left_no_time_ends_as_was_asked_for(
    table: str, answer: str, error: type[Exception] | None
) -> None:
    operator, found = compaction(until=OVER, on_window_end=answer), context()
    if error is None:
        assert operator.execute(found)["picks_left"] > 0
    else:
        with pytest.raises(error, match="left for the next window"):
            operator.execute(found)
    assert found["ti"].xcoms["report"]["picks_left"] > 0
    assert "picks left" in label(operator, found)


@pytest.mark.parametrize(
    ("answer", "error"),
    [("success", None), ("skip", AirflowSkipException), ("fail", AirflowFailException)],
)
def test_chores_that_their_window_left_no_time(
    table: str, answer: str, error: type[Exception] | None
) -> None:
    chores = {"expire-snapshots": {}, "compact": {}}
    operator = MaintainTableOperator(
        task_id="maintain", table=table, chores=chores, until=OVER, on_window_end=answer
    )
    found = context()
    if error is None:
        assert operator.execute(found)["left"] == ["compact", "expire-snapshots"]
    else:
        with pytest.raises(error, match="the window is over"):
            operator.execute(found)
    assert "left: compact, expire-snapshots" in label(operator, found)


@pytest.mark.parametrize("budget", [{"budget_bytes": "1 kb"}, {"budget_core_seconds": 0.000001}], ids=str)
def test_no_table_begins_after_the_budget_of_the_run(table: str, lake: Path, budget: dict[str, Any]) -> None:
    first, _ = run(compaction(**budget))
    assert first["picks_done"] > 0, "the budget is whole when the run begins"
    second, _ = run(compaction(OTHER, **budget))
    assert (second["picks_done"], second["picks_left"] > 0) == (0, True)
    found = attempts_of(lakecore.load_catalog(str(lake)), AttemptFilter())
    assert [one.state.value for one in found.attempts] == ["done", "left"], "a survey counts it as late"
    with pytest.raises(AirflowSkipException):
        run(compaction(OTHER, on_window_end="skip", **budget))
    third, _ = run(compaction(OTHER, **budget), run_id="run2")
    assert third["picks_done"] > 0, "another run has a budget of its own"


def test_a_budget_of_money_needs_a_price(table: str, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AirflowFailException, match="price_core_hour"):
        run(compaction(budget_money="2.50"))
    connection = {"conn_type": "lakecore", "host": str(lake), "extra": {"price_core_hour": "3600000"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(connection))
    assert run(compaction(budget_money="2.50"))[0]["picks_done"] > 0
    assert run(compaction(OTHER, budget_money="2.50"))[0]["picks_left"] > 0


@pytest.mark.parametrize(
    "parameters",
    [
        {"on_window_end": "{{ explode }}"},
        {"budget_bytes": "much"},
        {"budget_core_seconds": "-1"},
        {"budget_money": "nan"},
    ],
    ids=str,
)
def test_what_is_no_limit_is_refused(table: str, parameters: dict[str, str]) -> None:
    with pytest.raises(AirflowFailException, match=next(iter(parameters))):
        run(compaction(**parameters))
