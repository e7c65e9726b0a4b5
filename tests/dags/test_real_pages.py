"""The pages of a lake in a real Airflow: who sees them, where Airflow shows them, and the report of a run."""

from __future__ import annotations

import re
import urllib.parse

import pytest

from tests.dags.conftest import AirflowLake
from tools.airflow_api import AirflowApi
from tools.airflow_server import VIEWER

pytestmark = pytest.mark.slow


@pytest.fixture
def viewer(airflow: AirflowLake) -> AirflowApi:
    found = AirflowApi(airflow.api.url)
    found.login(VIEWER, VIEWER)
    return found


def test_strangers_see_no_page_and_viewers_see_the_lake(airflow: AirflowLake, viewer: AirflowApi) -> None:
    airflow.place("g1.a_pk_runs", "pages")
    state, _ = airflow.run("lakecore_survey", {"including_databases": "pages"})
    assert state == "success"
    stranger = AirflowApi(airflow.api.url)
    for path in ("/lakecore/", "/lakecore/table?name=pages.a_pk_runs", "/lakecore/runs/lakecore_survey/x"):
        status, text = stranger.page(path)
        assert status in (401, 403)
        assert "a_pk_runs" not in text
    for user in (viewer, airflow.api):
        status, text = user.page("/lakecore/")
        assert (status, "pages.a_pk_runs" in text) == (200, True), text[:500]
        status, text = user.page("/lakecore/table?name=pages.a_pk_runs")
        assert (status, "What blocks expiry" in text) == (200, True), text[:500]
        assert user.page("/lakecore/table?name=pages.missing")[0] == 404
        assert user.page("/lakecore/?conn=not_a_lake")[0] == 404


def test_the_report_of_a_run_and_of_a_task(airflow: AirflowLake, viewer: AirflowApi) -> None:
    airflow.place("g1.a_pk_runs", "tab")
    state, tasks = airflow.run(
        "lakecore_nightly", {"database": "tab", "until": "", "engine": "local", "strategy": "full"}
    )
    assert state == "success"
    run_id = urllib.parse.quote(tasks[0]["dag_run_id"], safe="")
    status, text = viewer.page(f"/lakecore/runs/lakecore_nightly/{run_id}")
    assert (status, "tab.a_pk_runs" in text, "8 → " in text) == (200, True, True), text[-3000:]
    status, text = viewer.page(f"/lakecore/runs/lakecore_nightly/{run_id}/compact?map_index=0")
    assert (status, "rows_in" in text) == (200, True)


def test_an_action_is_a_dry_run_first_and_only_for_who_may_start_runs(
    airflow: AirflowLake, viewer: AirflowApi
) -> None:
    table = airflow.place("g1.a_pk_runs", "act")
    path = f"/lakecore/table?name={table.name}"
    button = ">Dry run</button>"
    assert button not in viewer.page(path)[1]
    assert button in airflow.api.page(path)[1]
    token = re.search(r'name="token" value="([^"]+)"', airflow.api.page(path)[1])
    assert token is not None
    form = {"token": token[1], "action": "compact", "table": table.name, "strategy": "full"}
    assert viewer.send_form("/lakecore/actions", form)[0] == 403
    assert airflow.api.send_form("/lakecore/actions", form, "https://evil.example")[0] == 403
    assert airflow.api.send_form("/lakecore/actions", form | {"token": "1.x"})[0] == 403
    assert airflow.api.runs("lakecore_adhoc") == []
    for confirm, outcome in (("", "would be: 8 → about"), ("yes", "8 → 3 files")):
        before = table.latest_snapshot()
        status, address = airflow.api.send_form("/lakecore/actions", form | {"confirm": confirm})
        assert status == 303, address
        run_id = urllib.parse.unquote(address.split("/")[1].split("?")[0])
        assert airflow.end_of("lakecore_adhoc", run_id) == "success"
        text = airflow.api.page(f"/lakecore/{address}")[1]
        assert outcome in text, text[-3000:]
        assert ("Do it: compact" in text) is not bool(confirm)
        assert (airflow.load_table(table.name).latest_snapshot() != before) is bool(confirm)
    log = airflow.api.call("GET", "/api/v2/eventLogs?event=lakecore_action")["event_logs"]
    assert len(log) == 2
    assert all(one["dag_id"] == "lakecore_adhoc" and table.name in one["extra"] for one in log)
    assert "8 → 3 files" in viewer.page("/lakecore/history")[1]


def test_what_no_rule_allows_is_refused_by_the_page_and_by_the_run(airflow: AirflowLake) -> None:
    """The rules are in the `lakecore.toml` of the DAG folder, which the API server does not read."""
    table = airflow.place("g1.a_pk_runs", "xact")
    text = airflow.api.page(f"/lakecore/table?name={table.name}")[1]
    assert (table.name in text, ">Dry run</button>" in text) == (True, False)
    other = airflow.place("g1.a_pk_runs", "yact")
    token = re.search(
        r'name="token" value="([^"]+)"', airflow.api.page(f"/lakecore/table?name={other.name}")[1]
    )
    assert token is not None
    form = {"token": token[1], "action": "fsck", "table": table.name}
    status, answer = airflow.api.send_form("/lakecore/actions", form)
    assert (status, "admin may not fsck on xact.a_pk_runs" in answer) == (403, True), answer
    state, tasks = airflow.run("lakecore_adhoc", {"action": "fsck", "table": table.name})
    assert state == "failed"
    (chosen,) = [task for task in tasks if task["task_id"] == "choose"]
    assert "no rule of [[airflow.rights]]" in str(airflow.api.error(chosen))
    assert airflow.run("lakecore_adhoc", {"action": "fsck", "table": other.name})[0] == "success"


def test_airflow_shows_the_pages_in_its_menu_and_as_tabs(airflow: AirflowLake) -> None:
    plugins = airflow.api.call("GET", "/api/v2/plugins")["plugins"]
    (found,) = [plugin for plugin in plugins if plugin["name"] == "lakecore_ui"]
    views = {view["destination"]: view["href"] for view in found["external_views"]}
    assert views["nav"] == "lakecore/"
    assert set(views) == {"nav", "dag_run", "task_instance"}
    assert not airflow.api.call("GET", "/api/v2/plugins/importErrors")["import_errors"]
