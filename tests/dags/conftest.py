"""One real Airflow for the whole session, with a lake of tables that Java Paimon wrote."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import lakecore
from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.row.json_rows import batch_to_json
from lakecore.table import Table
from tests.support.golden import canonical, golden_table
from tools.airflow_api import ENDED, AirflowApi
from tools.airflow_server import AirflowServer

_BUNDLE = Path(__file__).parent / "bundle"
_DAG_FILES = Path(__file__).parents[2] / "dags"
_LOCAL_BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"
_DAGS = (
    "lakecore_nightly",
    "lakecore_on_snapshot",
    "lakecore_partition",
    "lakecore_lost_answer",
    "lakecore_slow",
    "lakecore_maintenance",
    "lakecore_waits",
    "lakecore_old_names",
    "lakecore_keys",
    "lakecore_by_key",
    "lakecore_on_asset",
    "lakecore_batch_tags",
    "lakecore_nightly__unknown",
    "lakecore_maintenance__unknown",
    "lakecore_batch_tags__unknown",
    "lakecore_partition__unknown",
    "lakecore_on_snapshot__unknown",
    "lakecore_adhoc",
    "lakecore_survey",
    "lakecore_survey__unknown",
    "lakecore_service",
    "lakecore_submit",
    "lakecore_people",
    "lakecore_of_database",
)
GUARDED_PASSWORD = "correct-horse-of-root"
"""That of the user root of the lake `guarded`."""
_SUBMIT = """
[airflow.submit]
conn_id = "spark_default"
poke_interval = 2
"""
"""This needs Airflow's Spark provider, which the environments of tests/airflow_versions lack."""
WATCHED = ("watched.a_pk_dedup_l0", "watched.later")
_SETTINGS = f"""
[airflow]
connections = ["lake_default", "unknown"]
[[airflow.rights]]
users = ["*"]
databases = ["[!x]*"]
[[airflow.rights]]
users = ["*"]
actions = ["undo", "purge"]
[airflow.nightly]
schedule = ""
[airflow.maintenance]
schedule = ""
[airflow.survey]
schedule = ""
[airflow.on_snapshot]
schedule = ""
poke_seconds = 3
[airflow.on_asset]
schedule = ""
poke_seconds = 3
tables = {list(WATCHED)}
"""
_NEED_ASSET_STATE = ("lakecore_keys", "lakecore_by_key", "lakecore_old_names")
"""The DAGs of tests that an Airflow before 3.3 cannot run; tests/airflow_versions leaves their tests out."""
_ENDS_AFTER_S = 180.0


@dataclass(frozen=True)
class AirflowLake:
    """A running Airflow whose connection `lake_default` is the warehouse `path`, and `unknown` another one."""

    api: AirflowApi
    path: Path
    unknown: Path
    guarded: Path
    """A lake whose connection `guarded` is that of the user root."""
    fresh: Path
    """A folder for a lake that Airflow does not know, and its empty DAG folder."""
    environ: Mapping[str, str]
    """The environment of Airflow's processes."""

    def place(self, golden: str, database: str) -> Table:
        """A copy of a golden table in a database of the test's own."""
        source = golden_table(golden)
        shutil.copytree(source.path, self.path / f"{database}.db" / source.table)
        return self.load_table(f"{database}.{source.table}")

    @property
    def catalog(self) -> FilesystemCatalog:
        return lakecore.load_catalog(str(self.path))

    def lineage(self, task: str) -> list[dict[str, Any]]:
        """The OpenLineage events, in order, of tasks of this name (`dag.task`)."""
        file = self.path.parent / "lineage.jsonl"
        events = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [event for event in events if event["job"]["name"] == task]

    def load_table(self, name: str) -> Table:
        return self.catalog.load_table(name)

    def run(self, dag_id: str, conf: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        """Start a run by hand and wait until it ends; its state and task instances."""
        run_id = self.api.trigger(dag_id, conf)
        return self.end_of(dag_id, run_id), self.api.tasks(dag_id, run_id)

    def end_of(self, dag_id: str, run_id: str) -> str:
        def ended() -> str | None:
            state = self.api.run_state(dag_id, run_id)
            return state if state in ENDED else None

        return str(self.api.wait(f"the end of {dag_id}", ended, _ENDS_AFTER_S))

    def backfill(self, request: Mapping[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
        """Logical date and task instances of each run of a backfill, all of them successful."""
        dag_id = request["dag_id"]
        backfill_id = self.api.create_backfill(request)

        def completed() -> bool:
            return bool(self.api.call("GET", f"/api/v2/backfills/{backfill_id}")["completed_at"])

        self.api.wait("the end of the backfill", completed, _ENDS_AFTER_S)
        runs = [run for run in self.api.runs(dag_id) if run["run_type"] == "backfill"]
        assert {run["state"] for run in runs} == {"success"}
        return [(run["logical_date"], self.api.tasks(dag_id, run["dag_run_id"])) for run in runs]

    def state_of(self, dag_id: str, run_id: str, task_id: str) -> str:
        [task] = [task for task in self.api.tasks(dag_id, run_id) if task["task_id"] == task_id]
        return str(task["state"])


def table_of(task: Mapping[str, Any]) -> str:
    """The table of a mapped task: its label goes on with the outcome."""
    return str(task["rendered_map_index"]).partition(" · ")[0]


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowLake]:
    """Started once (20 s on two free cores). Tests that ask for it are slow."""
    # Airflow sets up logging when it is imported; in a conftest that would be outside of pytest's capture
    from lakecore_airflow.airflow_names import HAS_ASSET_STATE

    home = tmp_path_factory.mktemp("airflow")
    lake = home / "lake"
    unknown = home / "unknown"
    fresh, guarded = home / "fresh", home / "guarded"
    for folder in (lake, unknown, guarded, fresh / "dags", fresh / "lake"):
        folder.mkdir(parents=True)
    shutil.copytree(_DAG_FILES, home / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    left_out = () if HAS_ASSET_STATE else _NEED_ASSET_STATE
    settings = _SETTINGS if HAS_ASSET_STATE else _SETTINGS.replace(f"tables = {list(WATCHED)}", "")
    has_provider = find_spec("airflow.providers.apache") and find_spec("airflow.providers.apache.spark")
    (home / "dags" / "lakecore.toml").write_text(settings + (_SUBMIT if has_provider else ""))
    shutil.copytree(
        _BUNDLE,
        home / "bundle",
        ignore=shutil.ignore_patterns("__pycache__", *(f"{dag}.py" for dag in left_out)),
    )
    lineage = {"type": "file", "log_file_path": str(home / "lineage.jsonl"), "append": True}
    bundles = [
        {"name": "dags", "classpath": _LOCAL_BUNDLE, "kwargs": {"path": str(home / "dags")}},
        {"name": "tests", "classpath": _LOCAL_BUNDLE, "kwargs": {"path": str(home / "bundle")}},
        {
            "name": "fresh",
            "classpath": _LOCAL_BUNDLE,
            "kwargs": {"path": str(fresh / "dags"), "refresh_interval": 5},
        },
    ]
    root = {"user": "root", "password": GUARDED_PASSWORD}
    environment = {
        "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps({"conn_type": "lakecore", "host": str(lake)}),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        # by default every 30 s, though no file has changed; a changed one is read at once
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "120",
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(lineage),
        "AIRFLOW__OPENLINEAGE__SELECTIVE_ENABLE": "True",  # each task that tells takes two more processes
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_CONN_GUARDED": json.dumps(
            {"conn_type": "lakecore", "host": str(guarded), "extra": {"catalog_options": root}}
        ),
        "AIRFLOW_CONN_GUARDED_ROOT": json.dumps({"conn_type": "generic", "password": GUARDED_PASSWORD}),
        "AIRFLOW_CONN_UNKNOWN": json.dumps({"conn_type": "lakecore", "host": str(unknown)}),
    }
    with AirflowServer(home / "airflow", environment) as server:
        for dag_id in (one for one in _DAGS if one not in left_out):
            server.api.wait(dag_id, lambda dag_id=dag_id: server.api.has_dag(dag_id), 300)
            server.api.unpause(dag_id)
        yield AirflowLake(server.api, lake, unknown, guarded, fresh, server.env)


def rows(table: Table) -> list[str]:
    """All rows, as `GoldenTable.rows` gives them."""
    scan = table.scan()
    row_type = table.schema.row_type
    return canonical(
        line for batch in scan.to_arrow().to_batches() for line in batch_to_json(batch, row_type)
    )
