"""A lake and the application of the pages, without an Airflow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.api_fastapi.common.db.common import _get_session
from airflow.api_fastapi.core_api.security import get_user
from starlette.testclient import TestClient

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore_airflow.rights import Rights
from lakecore_airflow.ui import airflow_actions, page, pages, run_page
from lakecore_airflow.ui import app as routes
from lakecore_airflow.ui.actions import Actions
from lakecore_airflow.ui.policy_view import TablePolicy
from tests.support.golden import golden_table
from tests.support.ui_pages import TASKS, WINDOW, Starts


@pytest.fixture
def lake(tmp_path: Path) -> FilesystemCatalog:
    for name in ("a_pk_runs", "a_append_unaware", "a_pk_postpone", "a_life_empty", "a_pk_dedup_b3_part"):
        golden_table(f"g1.{name}").copy_to(tmp_path / "lake")
    return load_catalog(str(tmp_path / "lake"))


@pytest.fixture
def client(lake: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    def nobody() -> None:
        return None

    monkeypatch.setenv(
        "AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "lakecore", "host": lake.warehouse})
    )
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps({"conn_type": "http", "host": "example.org"}))
    monkeypatch.setattr(routes, "requires_access_view", lambda *_: nobody)
    monkeypatch.setattr(routes, "requires_access_dag", lambda *_: nobody)
    monkeypatch.setattr(page, "lake_connections", lambda session: [])
    monkeypatch.setattr(
        run_page, "reports_of_run", lambda session, *ids: [] if "/" in ids[1] else list(TASKS)
    )
    monkeypatch.setattr(Actions, "for_user", lambda *_: {"token": "", "may": (), "missing": ""})
    monkeypatch.setattr(pages, "window_dag", lambda session, dag_id: WINDOW)
    monkeypatch.setattr(pages, "policy_of", lambda session, dag_id, table: TablePolicy(problem="no policy"))
    app = routes.new_app()
    app.dependency_overrides[_get_session] = nobody
    app.dependency_overrides[get_user] = nobody
    with TestClient(app) as found:
        yield found


@pytest.fixture
def starts(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> Starts:
    found = Starts()
    monkeypatch.setattr(airflow_actions, "start", found.start)
    monkeypatch.setattr(airflow_actions, "action_rights", lambda session: Rights(None))
    monkeypatch.setattr(airflow_actions, "secret_key", lambda: "secret")
    user = SimpleNamespace(get_id=lambda: "ada", get_name=lambda: "ada")
    client.app.dependency_overrides[get_user] = lambda: user
    return found
