"""The provider as a real Airflow sees it, through the entry point of the editable install."""

from __future__ import annotations

import pytest

from tests.dags.conftest import AirflowLake

pytestmark = pytest.mark.slow


def test_the_connection_form_has_our_fields(airflow: AirflowLake) -> None:
    forms = {form["connection_type"]: form for form in airflow.api.call("GET", "/ui/connections/hook_meta")}
    form = forms["lakecore"]
    assert form["hook_name"] == "Paimon lake (lakecore)"
    assert form["standard_fields"]["host"]["title"] == "Warehouse"
    assert form["standard_fields"]["url_schema"]["hidden"]
    fields = form["extra_fields"]
    assert {"s3_endpoint", "s3_region", "s3_path_style", "s3_session_token", "spark_master"} <= set(fields)
    assert fields["s3_session_token"]["schema"]["format"] == "password"


def test_the_provider_is_listed(airflow: AirflowLake) -> None:
    providers = airflow.api.call("GET", "/api/v2/providers?limit=100")["providers"]
    assert "lakecore" in {provider["package_name"] for provider in providers}


def test_the_test_button(airflow: AirflowLake) -> None:
    connection = {"connection_id": "mine", "conn_type": "lakecore", "host": str(airflow.path)}
    found = airflow.api.call("POST", "/api/v2/connections/test", connection)
    assert (found["status"], str(airflow.path) in found["message"]) == (True, True)
    found = airflow.api.call("POST", "/api/v2/connections/test", connection | {"host": "/nowhere/lake"})
    assert (found["status"], "/nowhere/lake" in found["message"]) == (False, True)
