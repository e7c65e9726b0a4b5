"""The engines of the DAGs: `submit` is there where the settings name the connection of Spark, and what cannot work is refused."""

from __future__ import annotations

from typing import Any

import pytest

from lakecore_airflow.airflow_names import yaml
from lakecore_airflow.dags import engines, lakecore_dags
from lakecore_airflow.settings import SettingsError
from tests.operators.test_dag_settings import write

SUBMIT = {"conn_id": "spark_yarn", "executor_memory": "4g", "use_krb5ccache": True}
CHOOSING = ("nightly", "partition", "maintenance", "adhoc")


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider is there, also in the environments of tests/airflow_versions, which lack it."""
    monkeypatch.setattr(engines, "_PROVIDER", "airflow.providers.standard")


def dag_of(name: str, **settings: Any) -> Any:
    return lakecore_dags(name, settings=settings)[f"lakecore_{name}"]


def arguments_of(dag: Any, task_id: str) -> dict[str, Any]:
    task = dag.get_task(task_id)
    return dict(getattr(task, "partial_kwargs", None) or vars(task))


@pytest.mark.parametrize("name", CHOOSING)
def test_submit_is_an_engine_where_the_connection_is_named(name: str) -> None:
    enum = dag_of(name).params.get_param("engine").schema["enum"]
    assert sorted(enum) == ["auto", "local", "spark"]
    named = dag_of(name, submit=SUBMIT, **{name: {"engine": "submit"}})
    assert named.params["engine"] == "submit"
    assert sorted(named.params.get_param("engine").schema["enum"]) == ["auto", "local", "spark", "submit"]
    own = dag_of(name, submit=SUBMIT, **{name: {"submit": {"conn_id": "own"}}})
    task = "compact" if name in ("nightly", "partition") else "maintain"
    assert "own" in arguments_of(own, task)["submit"]


@pytest.mark.parametrize(
    ("dag", "task_id"),
    [
        ("nightly", "compact"),
        ("partition", "compact"),
        ("maintenance", "maintain"),
        ("adhoc", "compact"),
        ("adhoc", "maintain"),
    ],
)
def test_the_tasks_get_how_to_submit_only_for_that_engine(dag: str, task_id: str) -> None:
    made = dag_of(dag, submit=SUBMIT)
    arguments = arguments_of(made, task_id)

    def rendered(name: str, engine: str) -> str:
        text = made.get_template_env().from_string(arguments[name]).render(params={"engine": engine})
        return str(text or "")

    assert rendered("engine", "submit") == "submit"
    assert yaml.safe_load(rendered("submit", "submit")) == SUBMIT
    assert rendered("submit", "spark") == ""


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"nightly": {"engine": "submit"}}, r"airflow\.nightly: engine submit needs a connection"),
        ({"nightly": {"engine": "sparc"}}, "engine is 'sparc'; this DAG has auto, spark, local"),
        ({"compactor": {"engine": "submit"}}, "engine is 'submit'; this DAG has spark, local"),
        ({"submit": {"executor_memory": "4g"}}, "make it a table with conn_id"),
        ({"submit": "spark_default"}, "make it a table with conn_id"),
        ({"submit": {"conn_id": "s", "queue": "q"}}, "no key 'queue'; its keys are conn_id"),
        ({"submit": {"conn_id": "s", "poke_interval": 0}}, "poke_interval=0"),
        (
            {"submit": {"conn_id": "s"}, "maintenance": {"engine": "submit", "budget_bytes": "1 gb"}},
            "budget_bytes is not obeyed with engine submit",
        ),
    ],
)
def test_what_cannot_work_is_refused_when_the_file_is_parsed(settings: Any, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        lakecore_dags(settings=settings)


def test_a_missing_provider_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_PROVIDER", "airflow.providers.nothing.spark")
    with pytest.raises(SettingsError, match="pip install 'lakecore"):
        lakecore_dags("nightly", settings={"submit": SUBMIT})
    assert lakecore_dags("nightly", settings={})


def test_the_settings_may_come_from_a_file(tmp_path: Any) -> None:
    text = '[airflow.submit]\nconn_id = "spark_default"\n[airflow.nightly]\nengine = "submit"\n'
    folder = write(tmp_path, text)
    dags = lakecore_dags("nightly", "compactor", beside=folder / "dag.py")
    assert dags["lakecore_nightly"].params["engine"] == "submit"
    assert dags["lakecore_compactor"].params["engine"] == "spark"
