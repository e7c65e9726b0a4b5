"""Rules of `lakecore.toml` say who may act on which lakes; the pages and the DAG for actions check them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import HTTPException

from lakecore.errors import InvalidInputError
from lakecore_airflow.airflow_names import AirflowFailException
from lakecore_airflow.dags import SettingsError, lakecore_dags
from lakecore_airflow.rights import ActionRequest, Rights
from lakecore_airflow.ui import airflow_actions
from lakecore_airflow.ui.actions import Actions

RULES: list[dict[str, Any]] = [
    {"users": ["anna"], "connections": ["lake_default"], "databases": ["shop", "crm_*"]},
    {"users": ["ops-*"], "actions": ["fsck", "undo", "purge"]},
]


def allowed(user: str, action: str, table: str = "", connection: str = "lake_default") -> bool:
    request = ActionRequest(user=user, action=action, connection=connection, table=table)
    return not Rights.parse(RULES).refusal(request)


def test_a_rule_allows_users_actions_and_databases() -> None:
    assert allowed("anna", "compact", "shop.orders")
    assert allowed("anna", "hold", "crm_eu.leads")
    assert not allowed("anna", "compact", "hr.people")
    assert not allowed("anna", "compact", "shop.orders", connection="archive")
    assert not allowed("berta", "compact", "shop.orders")
    assert not allowed("", "compact", "shop.orders"), "a run that nobody started"
    assert allowed("ops-1", "fsck", "hr.people", connection="archive")
    assert not allowed("ops-1", "compact", "hr.people")


@pytest.mark.parametrize(
    ("action", "table"),
    [
        ("maintain", "shop.orders,hr.people"),
        ("maintain", "shop.orders, hr.people"),
        ("maintain", ""),
        ("maintain", ","),
        ("compact", ""),
        ("compact", "archive.hr.people"),
        ("compact", "hr.shop.orders"),
        ("compact", " shop.orders"),
        ("compact", "*.orders"),
        ("compact", "SHOP.orders"),
    ],
)
def test_no_name_of_tables_reaches_another_database(action: str, table: str) -> None:
    assert not allowed("anna", action, table)


def test_a_run_of_the_quarantine_may_be_of_any_table() -> None:
    assert not allowed("anna", "undo", "shop.orders"), "the run decides, whatever table is named beside it"
    assert allowed("ops-1", "purge")
    assert allowed("anna", "maintain", "shop.orders, crm_eu.leads")


def test_without_rules_airflow_alone_decides() -> None:
    request = ActionRequest(user="", action="purge", connection="c")
    assert Rights.parse(None).refusal(request) == ""
    assert "may not purge in all databases" in Rights(()).refusal(request)


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ([], "leave it out"),
        ({"users": ["a"]}, "leave it out"),
        ([{}], "rule 1 of rights names no users"),
        ([{"users": "anna"}], "users is 'anna'"),
        ([{"users": []}], "write a list"),
        ([{"users": ["a"], "actions": [1]}], "actions is"),
        ([{"users": ["a"], "tables": ["x"]}], "has no key 'tables'"),
        (["anna"], "make it a table"),
    ],
)
def test_a_rule_that_cannot_be_used_is_an_import_error(rules: Any, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        Rights.parse(rules)
    with pytest.raises(SettingsError, match=problem):
        lakecore_dags("adhoc", settings={"rights": rules})


def test_the_run_checks_what_the_page_checks() -> None:
    choose: Any = lakecore_dags("adhoc", settings={"rights": RULES})["lakecore_adhoc"].get_task("choose")
    params = {"action": "compact", "lake_conn_id": "lake_default", "table": "shop.orders"}

    def chosen(user: str | None, **changes: str) -> str:
        run = SimpleNamespace(triggering_user_name=user)
        return str(choose.python_callable(params={**params, **changes}, dag_run=run, **choose.op_kwargs))

    assert chosen("anna") == "compact"
    assert chosen("anna", action="maintain") == "plan"
    for refused in (("anna", "hr.people"), (None, "shop.orders"), ("berta", "shop.orders")):
        with pytest.raises(AirflowFailException, match="may not compact on"):
            chosen(refused[0], table=refused[1])


def test_a_page_refuses_in_words_and_shows_no_button(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: Any = SimpleNamespace(
        data=SimpleNamespace(now_ms=lambda: 0), connection=lambda session, conn: (conn, [conn])
    )
    actions, anna = Actions(pages), SimpleNamespace(get_name=lambda: "anna", get_id=lambda: "1")
    conf_of_runs: list[Any] = []
    monkeypatch.setattr(airflow_actions, "may_start", lambda user: True)
    monkeypatch.setattr(airflow_actions, "secret_key", lambda: "key")
    monkeypatch.setattr(airflow_actions, "action_rights", lambda session: Rights.parse(RULES))
    monkeypatch.setattr(
        airflow_actions, "start", lambda session, user, conf: conf_of_runs.append(conf) or "r"
    )
    monkeypatch.setattr(Actions, "_check", lambda *_: None)
    assert set(actions.for_user(None, anna, "lake_default", "shop.orders")["may"]) == {
        *("compact", "maintain", "hold", "release", "fsck")
    }
    hidden = (
        "Rules of rights ([[airflow.rights]]) hide buttons from you: compact, maintain, hold, release, fsck."
    )
    assert actions.for_user(None, anna, "archive", "shop.orders") == {
        "token": "",
        "may": [],
        "missing": hidden,
    }
    form = {"conn": "lake_default", "action": "fsck", "table": "hr.<b>people"}
    request: Any = None
    with pytest.raises(HTTPException) as refused:
        actions.start(request, form, None, anna)
    assert (refused.value.status_code, conf_of_runs) == (403, [])
    assert "anna may not fsck on hr.<b>people" in refused.value.detail, "FastAPI answers with JSON"
    assert actions.start(request, form | {"table": "shop.orders"}, None, anna).status_code == 303
    assert len(conf_of_runs) == 1


@pytest.mark.parametrize("arguments", ["Truncated. You can change this", {"rights": [{"users": 3}]}])
def test_rules_that_cannot_be_read_allow_nothing(monkeypatch: pytest.MonkeyPatch, arguments: Any) -> None:
    from airflow.models.serialized_dag import SerializedDagModel

    dag = SimpleNamespace(task_dict={"choose": SimpleNamespace(op_kwargs=arguments)})
    monkeypatch.setattr(SerializedDagModel, "get_dag", lambda dag_id, session: dag)
    assert airflow_actions.action_rights(None) == Rights(())


def test_stored_rules_are_read_as_they_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.models.serialized_dag import SerializedDagModel

    from tests.support.airflow_dags import DagSerialization

    dag = lakecore_dags("adhoc", settings={"rights": RULES})["lakecore_adhoc"]
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    monkeypatch.setattr(SerializedDagModel, "get_dag", lambda dag_id, session: stored)
    assert airflow_actions.action_rights(None) == Rights.parse(RULES)
