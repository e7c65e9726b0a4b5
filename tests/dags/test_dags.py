"""Every DAG file imports without the heavy libraries, serialises, and has an owner."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.operators.conftest import _ROOT
from tests.support.airflow_dags import DagBag, DagSerialization

FILES = sorted((_ROOT / "dags").glob("*.py"))


@pytest.fixture(scope="module")
def bag() -> DagBag:
    return DagBag(str(_ROOT / "dags"))


def test_every_file_holds_one_dag_without_errors(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert sorted(bag.dags) == [file.stem for file in FILES] != []


def test_every_dag_serialises_and_every_task_has_an_owner_and_retries(bag: DagBag) -> None:
    for dag in bag.dags.values():
        DagSerialization.validate_schema(DagSerialization.to_dict(dag))
        assert dag.max_active_runs == (16 if dag.dag_id == "lakecore_adhoc" else 1)
        for task in dag.tasks:
            assert task.owner == "data-platform"
            assert task.retries >= 1, (
                f"{task.task_id}: a deferred task may be reported lost and needs a retry"
            )


def test_every_trigger_form_can_be_sent_as_it_is(bag: DagBag) -> None:
    """The form in the browser refuses an empty field whose type does not allow null."""
    for dag in bag.dags.values():
        for name, param in dag.params.items():
            field = dag.params.get_param(name)
            assert field.description or field.schema["enum"]
            assert param or "null" in field.schema["type"], f"{dag.dag_id}: {name}"


def test_parsing_loads_neither_pyarrow_nor_pyspark() -> None:
    code = (
        f"import runpy, sys; sys.path.insert(0, {str(_ROOT)!r})\n"
        f"for file in {[str(file) for file in FILES]}:\n"
        "    runpy.run_path(file)\n"
        "    print(file, sorted({'pyarrow', 'pyspark', 'boto3', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=_ROOT)
    assert done.stdout.splitlines()[-len(FILES) :] == [f"{file} []" for file in FILES]
