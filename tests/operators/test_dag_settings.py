"""The settings of the DAGs, and the DAGs that they make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakecore_airflow.dags import lakecore_dags
from lakecore_airflow.settings import SettingsError, find_settings, parse_settings

NAMES = ("nightly", "maintenance", "on_asset")
ALL = [
    "adhoc",
    "batch_tags",
    "compactor",
    "maintenance",
    "nightly",
    "on_asset",
    "on_snapshot",
    "partition",
    "survey",
]


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lakecore.toml").write_text(text)
    return folder


def schedule(name: str) -> str:
    return f'[airflow.nightly]\nschedule = "{name}"\n'


def test_an_action_follows_the_policy_of_the_maintenance() -> None:
    rules = [{"tables": ["*"], "chores": {"fsck": {}}}]

    def policy(**settings: Any) -> Any:
        return lakecore_dags("adhoc", settings=settings)["lakecore_adhoc"].get_task("plan").policy

    assert policy(maintenance={"policy": rules}) == rules
    assert policy(maintenance={"policy": rules}, adhoc={"policy": "/own.yaml"}) == "/own.yaml"
    assert "lakecore_policy" in policy()


def test_the_first_file_that_exists_counts(tmp_path: Path) -> None:
    environ = {"AIRFLOW_HOME": str(tmp_path / "airflow"), "HOME": str(tmp_path / "home")}
    beside = tmp_path / "dags" / "lakecore_nightly.py"

    def found() -> Any:
        return find_settings(beside, NAMES, environ).of("nightly", {"schedule": "none"})["schedule"]

    assert found() == "none"
    write(tmp_path / "home" / ".config" / "lakecore", schedule("home"))
    assert found() == "home"
    write(tmp_path / "airflow", schedule("airflow"))
    assert found() == "airflow"
    write(beside.parent, schedule("beside"))
    assert found() == "beside"
    environ["LAKECORE_CONFIG"] = str(write(tmp_path / "named", schedule("named")) / "lakecore.toml")
    assert found() == "named"
    environ["LAKECORE_CONFIG"] = str(tmp_path / "gone.toml")
    with pytest.raises(SettingsError, match=r"gone\.toml cannot be read"):
        found()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[airflow.nigthly]\n", "no setting 'nigthly'"),
        ("[airflow]\nconnections = []\n", "list of connection ids"),
        ("[airflow]\nnightly = 1\n", "make it a table"),
        ("airflow = 1\n", "make it a table"),
        ("[airflow\n", "is no TOML"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, problem: str) -> None:
    folder = write(tmp_path, text)
    with pytest.raises(SettingsError, match=problem):
        find_settings(folder / "dag.py", NAMES, {})


def test_a_key_that_no_dag_has_is_refused() -> None:
    settings = parse_settings({"airflow": {"nightly": {"shedule": ""}}}, NAMES, "test")
    with pytest.raises(SettingsError, match="'shedule'; it has engine, schedule"):
        settings.of("nightly", {"schedule": "", "engine": "local"})


@pytest.mark.parametrize(
    ("variable", "place"),
    [
        ("LAKECORE_WATCH", r"set tables in the table \[airflow.on_asset\]"),
        ("LAKECORE_NIGHTLY_CRON", r"set schedule in the table \[airflow.nightly\]"),
        ("LAKECORE_POLICY", r"set policy in the table \[airflow.maintenance\]"),
        ("LAKECORE_POKE_SECONDS", r"set poke_seconds in the table \[airflow.on_asset\]"),
    ],
)
def test_variables_of_one_component_are_refused(variable: str, place: str) -> None:
    with pytest.raises(SettingsError, match=place):
        find_settings(None, NAMES, {variable: "x"})


def test_each_connection_has_dags_of_its_own() -> None:
    dags = lakecore_dags(settings={}, conn_ids=["lake_default", "archive"])
    assert sorted(dags) == sorted(f"lakecore_{name}{end}" for name in ALL for end in ("", "__archive"))
    for dag_id, dag in dags.items():
        assert dag.dag_id == dag_id
        connection = "archive" if dag_id.endswith("__archive") else "lake_default"
        assert dag.params["lake_conn_id"] == connection
        for task in dag.tasks:
            if hasattr(task, "partial_kwargs"):
                given = task.partial_kwargs.get("lake_conn_id", "{{ params.lake_conn_id }}")
            else:
                given = getattr(task, "lake_conn_id", "{{ params.lake_conn_id }}")
            assert given == "{{ params.lake_conn_id }}", f"{dag_id}.{task.task_id}"


def test_a_policy_can_be_given_in_the_dag_file() -> None:
    rules = [{"tables": ["*"], "chores": {"fsck": {}}}]
    dags = lakecore_dags("maintenance", settings={"maintenance": {"policy": "/file"}}, policy=rules)
    assert dags["lakecore_maintenance"].params["policy"] == rules
    assert lakecore_dags("maintenance", settings={})["lakecore_maintenance"].params["policy"] is None


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(SettingsError, match="no DAG 'weekly'"):
        lakecore_dags("weekly", settings={})
