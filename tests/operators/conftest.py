"""Airflow without a database: its configuration is set before its first import; connections come from the environment."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_HOME = tempfile.mkdtemp(prefix="lakecore-airflow-")
os.environ.update(
    {
        "AIRFLOW_HOME": _HOME,
        "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(_ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(_ROOT / "plugins"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_HOME}/airflow.db",
    }
)


@dataclass
class FakeRun:
    """What operators read of a DAG run."""

    run_type: str = "manual"
    start_date: Any = None
    data_interval_start: Any = None
    data_interval_end: Any = None
    logical_date: Any = None
    run_after: Any = None


@dataclass
class FakeTaskInstance:
    """What operators read of a task instance; XComs are kept."""

    dag_id: str = "dag"
    task_id: str = "task"
    run_id: str = "run1"
    map_index: int = -1
    try_number: int = 1
    xcoms: dict[str, Any] = field(default_factory=dict)

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = value


def context(run_id: str = "run1", **run: Any) -> dict[str, Any]:
    return {"ti": FakeTaskInstance(run_id=run_id), "dag_run": FakeRun(**run)}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty warehouse, and the connection `lake_default` to it."""
    warehouse = tmp_path / "lake"
    warehouse.mkdir()
    connection = {"conn_type": "lakecore", "host": str(warehouse)}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(connection))
    return warehouse
