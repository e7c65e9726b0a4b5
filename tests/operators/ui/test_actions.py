"""Who may see a page and start a run from it, and the forms of actions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from airflow.api_fastapi.common.db.common import _get_session
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI, HTTPException
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.clock import SystemClock
from lakecore_airflow.ui import actions, airflow_actions
from lakecore_airflow.ui import app as routes
from lakecore_airflow.ui.actions import Actions
from lakecore_airflow.ui.tokens import VALID_MS, form_token, from_this_site, is_valid
from tests.support.ui_pages import Starts, task


def refused(app: FastAPI) -> dict[tuple[str, str], int]:
    """The status of each route that refuses a request, by method and path."""
    found = {}
    with TestClient(app) as visitor:
        for route in app.routes:
            assert isinstance(route, APIRoute), "each route has dependencies"
            for method in route.methods:
                path = re.sub(r"{[^}]*}", "x", route.path)
                status = visitor.request(method, path, follow_redirects=False).status_code
                if status in (401, 403):
                    found[method, route.path] = status
    return found


def test_each_route_asks_who_it_is_and_what_that_user_may(
    client: TestClient, lake: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger sees no route but the metrics, which have a token; nor does a user without the right to see plugins.
    Who may not see or start runs of a DAG has neither its report nor an action.
    """
    right: dict[str, Any] = {}

    def unless(name: str) -> Callable[..., Callable[[], None]]:
        def guard(*asked: Any) -> Callable[[], None]:
            def check() -> None:
                if right["without"] == name:
                    raise HTTPException(403, str(asked))

            return check

        return guard

    def user() -> None:
        if right["without"] == "a login":
            raise HTTPException(401)

    monkeypatch.setattr(routes, "requires_access_view", unless("a view"))
    monkeypatch.setattr(routes, "requires_access_dag", unless("a DAG"))
    app = routes.new_app()
    app.dependency_overrides = {_get_session: lambda: None, get_user: user}
    every = {(method, route.path) for route in app.routes for method in route.methods}  # type: ignore[attr-defined]
    right["without"] = "a login"
    assert refused(app) == dict.fromkeys(every - {("GET", "/metrics")}, 401) | {("GET", "/metrics"): 401}
    right["without"] = "a view"
    assert {name for name, status in refused(app).items() if status == 403} == every - {("GET", "/metrics")}
    right["without"] = "a DAG"
    assert {name for name, status in refused(app).items() if status == 403} == {
        ("GET", "/runs/{dag_id}/{run_id:path}"),
        ("GET", "/actions/{run_id}"),
        ("POST", "/actions"),
    }


@pytest.mark.parametrize(
    ("headers", "good"),
    [
        ({"host": "airflow:8080", "origin": "http://airflow:8080"}, True),
        ({"host": "10.0.0.1:80", "origin": "https://airflow.example.org"}, True),
        ({"host": "airflow:8080", "origin": "https://evil.example.org"}, False),
        ({"host": "airflow:8080", "origin": "null"}, False),
        ({"host": "airflow:8080"}, False),
        ({"host": "a", "origin": "http://a", "sec-fetch-site": "cross-site"}, False),
        ({"host": "a", "origin": "http://a", "sec-fetch-site": "same-origin"}, True),
    ],
)
def test_only_pages_of_this_airflow_may_send_forms(headers: dict[str, str], good: bool) -> None:
    assert from_this_site(headers, "https://airflow.example.org/base") is good


def test_a_token_is_of_one_user_for_half_a_day() -> None:
    token = form_token("secret", "ada", 1_000_000)
    assert is_valid(token, "secret", "ada", 1_000_000 + VALID_MS)
    assert not is_valid(token, "secret", "ada", 1_000_001 + VALID_MS)
    assert not is_valid(token, "secret", "eve", 1_000_000)
    assert not is_valid(token, "other", "ada", 1_000_000)
    for forged in (
        "",
        ".",
        "x.y",
        "999999999999999999999.a",
        token + "0",
        token.replace("1000000", "1000001"),
    ):
        assert not is_valid(forged, "secret", "ada", 1_000_000)


def post(client: TestClient, origin: str = "http://testserver", **fields: str) -> Any:
    token = form_token("secret", "ada", SystemClock().now_ms())
    return client.post(
        "/actions", data={"token": token, **fields}, headers={"origin": origin}, follow_redirects=False
    )


def test_an_action_starts_a_run_first_as_a_dry_run(client: TestClient, starts: Starts) -> None:
    answer = post(client, action="compact", table="d.t", strategy="full", dry_run="no")
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("actions/manual__1?")
    post(client, action="compact", table="d.t", confirm="yes")
    post(client, action="hold", table="d.t", reason="it is repaired")
    common = {"table": "d.t", "lake_conn_id": "lake_default"}
    assert starts.started == [
        {"action": "compact", "dry_run": True, "strategy": "full", **common},
        {"action": "compact", "dry_run": False, **common},
        {"action": "hold", "dry_run": False, "reason": "it is repaired", **common},
    ]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"action": "drop", "table": "d.t"}, 400),
        ({"action": "compact"}, 400),
        ({"action": "undo", "table": "d.t"}, 400),
        ({"action": "hold", "table": "d.t", "reason": " "}, 400),
        ({"action": "compact", "table": "d.t", "strategy": "odd"}, 400),
        ({"action": "compact", "table": "d.t", "conn": "other"}, 404),
        ({"action": "compact", "table": "d.t", "token": "1.x"}, 403),
        ({"action": "compact", "table": "d.t", "origin": "http://evil"}, 403),
        ({"action": "compact", "table": "x" * 20_000}, 413),
    ],
    ids=lambda value: str(value)[:60],
)
def test_forms_that_are_refused_start_nothing(
    client: TestClient, starts: Starts, fields: dict[str, str], status: int
) -> None:
    assert post(client, **fields).status_code == status
    assert starts.started == []


@pytest.mark.parametrize(
    ("request_", "report", "expected"),
    [
        ({"action": "purge", "dry_run": True}, {"job": "purge-quarantine", "files": 2, "dry_run": True}, "would be: 2 files"),
        ({"action": "maintain", "table": "d.t", "dry_run": True},
         {"table": "d.t", "done": [{"job": "expire-snapshots", "files": 3, "dry_run": True}]}, "3 files removed"),
        ({"action": "hold", "table": "d.t"}, {"job": "hold", "table": "d.t"}, "done"),
    ],
    ids=["purge", "maintain", "hold"],
)  # fmt: skip
def test_the_page_of_an_action_has_its_outcome_and_asks_before_it_changes(
    client: TestClient,
    starts: Starts,
    monkeypatch: pytest.MonkeyPatch,
    request_: dict[str, Any],
    report: dict[str, Any],
    expected: str,
) -> None:
    monkeypatch.setattr(airflow_actions, "run_conf", lambda session, run_id: ("success", request_))
    monkeypatch.setattr(airflow_actions, "is_paused", lambda session: False)
    monkeypatch.setattr(actions, "reports_of_run", lambda *_: [task("success", report, "act")])
    text = client.get("/actions/manual__1").text
    assert expected in text
    monkeypatch.setattr(Actions, "for_user", lambda *_: {"token": "t", "may": actions.ACTIONS, "missing": ""})
    text = client.get("/actions/manual__1").text
    assert ("Do it: " in text) is bool(request_.get("dry_run"))
