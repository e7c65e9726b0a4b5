"""The example DAGs for other services start the runner with arguments that it understands, and read its report."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2.nativetypes
import pytest
import typer
from airflow.sdk import BaseOperator

from lakecore.cli.commands import register
from lakecore.cli.main import main
from lakecore.jobs.definitions.compaction import Compact
from lakecore.jobs.definitions.repair import Undo
from lakecore_airflow.airflow_names import AirflowException, AirflowFailException
from lakecore_airflow.remote import read_report, write_job
from tests.operators.conftest import context
from tests.support.golden import GoldenTable

EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.py"))
TABLE = "g1.a_pk_dedup_l0"
PROVIDERS = {
    "airflow.providers.cncf.kubernetes.operators.pod": "KubernetesPodOperator",
    "airflow.providers.cncf.kubernetes.operators.spark_kubernetes": "SparkKubernetesOperator",
    "airflow.providers.amazon.aws.operators.emr": "EmrAddStepsOperator",
    "airflow.providers.databricks.operators.databricks": "DatabricksSubmitRunOperator",
    "airflow.providers.apache.livy.operators.livy": "LivyOperator",
}


class Foreign(BaseOperator):
    """It stands for an operator of a provider that is not installed here, and keeps its parameters."""

    def __init__(self, *, task_id: str, retries: int = 0, **given: Any) -> None:
        of_airflow = {
            name: given.pop(name) for name in ("dag", "task_group", "params", "default_args") if name in given
        }
        super().__init__(task_id=task_id, retries=retries, **of_airflow)
        self.parameters = given


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, operator in PROVIDERS.items():
        module = ModuleType(name)
        setattr(module, operator, Foreign)
        monkeypatch.setitem(sys.modules, name, module)
    secret: Any = ModuleType("airflow.providers.cncf.kubernetes.secret")
    secret.Secret = lambda *parts: parts
    monkeypatch.setitem(sys.modules, secret.__name__, secret)


def rendered(value: Any, job: dict[str, Any]) -> Any:
    """Templates with the XCom of the task `write`, as native objects."""
    if isinstance(value, dict):
        return {name: rendered(one, job) for name, one in value.items()}
    if isinstance(value, list):
        return [rendered(one, job) for one in value]
    if not isinstance(value, str) or "{{" not in value:
        return value

    class TaskInstance:
        def xcom_pull(self, task_id: str) -> dict[str, Any]:
            assert task_id == "write"
            return job

    return jinja2.nativetypes.NativeEnvironment().from_string(value).render(ti=TaskInstance())


def lists_of(value: Any) -> list[list[str]]:
    """All lists of texts in the parameters of an operator."""
    if isinstance(value, dict):
        return [one for inner in value.values() for one in lists_of(inner)]
    if not isinstance(value, list):
        return []
    if value and all(isinstance(one, str) for one in value):
        return [value]
    return [one for inner in value for one in lists_of(inner)]


def parsed(arguments: list[str]) -> dict[str, Any]:
    """Return what the command `run-job` understands of its arguments."""
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app, ["run-job"])
    command: Any = typer.main.get_command(app).commands["run-job"]  # type: ignore[attr-defined]
    return dict(command.make_context("run-job", list(arguments)).params)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_arguments_of_an_example_are_those_of_the_runner(
    file: Path, lake: Path, providers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"s3_endpoint": "http://s3", "catalog_options": {"s3.region": "x", "s3.secret-key": "hush-hush"}}
    connection = {"conn_type": "lakecore", "host": str(lake), "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(connection))
    names = runpy.run_path(str(file))
    monkeypatch.setitem(names["write"].function.__globals__, "get_current_context", context)
    job = names["write"].function()
    parameters = rendered(names["run"].parameters, job)
    assert "hush" not in json.dumps([job, parameters], default=str)
    [arguments] = [one for one in lists_of(parameters) if "run-job" in one]
    after = arguments[arguments.index("run-job") + 1 :]
    assert arguments[arguments.index("run-job") - 2 : arguments.index("run-job")] == ["--catalog", "remote"]
    assert parsed(after)["job"] == job["job_id"]
    text = json.dumps(parameters)
    assert all(f"{name}" in text and value in text for name, value in job["environment"].items())
    assert (lake / ".lakecore" / "jobs" / job["job_id"] / "job.json").exists()
    if file.stem == "kubernetes_pod":
        assert parsed(after)["master"] == "local[2]"
        assert [one[1] for one in parameters["secrets"]] == job["secrets"]


def test_every_provider_has_an_example() -> None:
    assert len(EXAMPLES) == len(PROVIDERS)


def test_the_command_line_of_a_job_runs_it_and_its_report_is_read(
    lake: Path, golden: Callable[[str], GoldenTable], capsys: pytest.CaptureFixture[str]
) -> None:
    golden(TABLE).copy_to(lake)
    job = write_job(Compact(table=TABLE), context())
    with pytest.raises(AirflowException, match="has no result"):
        read_report(job["job_id"])
    program, *arguments = job["command_line"]
    assert program == "lakecore"
    assert main([*arguments, "--engine", "local", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    report = read_report(job["job_id"])
    assert printed["steps"][0]["report"] == report
    assert report["before"]["files"] > report["after"]["files"] >= 1
    assert write_job(Compact(table=TABLE), context()) == job, "a retry writes the same job"
    assert main([*arguments, "--engine", "local"]) == 0
    assert f"job {job['job_id']}: done" in capsys.readouterr().out


def test_a_job_that_fails_ends_with_its_error(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = write_job(Compact(table="no.table"), context())
    assert main([*job["arguments"], "--engine", "local"]) == 1
    assert "no.table" in capsys.readouterr().err
    with pytest.raises(AirflowFailException, match="NotFoundError"):
        read_report(job["job_id"])
    with pytest.raises(AirflowFailException, match="'undo' cannot be run from a job file"):
        write_job(Undo(table="d.t", run_id="x"), context())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run-job", "/nowhere/x"], "is no job"),
        (["run-job", "/wh/.lakecore/jobs/j", "--warehouse", "/other"], "names its warehouse"),
        (["--warehouse", "LAKE", "run-job", "j"], "there is no such job"),
        (["--warehouse", "LAKE", "run-job", "j", "--submission", "a/b"], "no name of a submission"),
    ],
    ids=["path", "two warehouses", "missing", "submission"],
)
def test_what_is_no_job_is_refused(
    lake: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    assert main([str(lake) if one == "LAKE" else one for one in arguments]) == 1
    assert text in capsys.readouterr().err
