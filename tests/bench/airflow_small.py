"""Benchmark: eight small tables that Java Paimon wrote, compacted by the DAG `lakecore_nightly` of a real Airflow.

    .venv/bin/python -m tests.bench.airflow_small [--rows 5000] [--runs 3] [--figures DIRECTORY]

Airflow runs as `airflow standalone` (LocalExecutor on SQLite). A run counts from the request that triggers it to its
end; CPU is that of all of Airflow's processes meanwhile, its scheduler included. The DAG with one task for the whole lake, that with a task for each table, and DAGs of the same two shapes whose
tasks do nothing run in turns. Java Paimon counts the rows of each table before and after.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.processes import Contestant, cpu_seconds
from tests.bench.tables import PAIMON, java, prepare
from tools.airflow_api import ENDED
from tools.airflow_server import AirflowServer

TABLES = ("pk1", "pk4", "pu4", "agg4", "lkp4", "seq1_10", "late1_10", "app_12")
NIGHTS = {"one_task": "lakecore_nightly__one_task", "task_for_each_table": "lakecore_nightly"}
EMPTY = {"one_empty_task": "empty_task", "empty_task_for_each_table": "empty_tasks"}
_BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"
_DAGS = Path(__file__).parent / "airflow_dags"
_KINDS = ("seconds", "cpu_seconds")
_ENDS_AFTER_S = 300.0


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5000, help="of each table")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    options = parser.parse_args(argv)
    measured = conditions([PAIMON])
    warehouse = prepare(options.rows, TABLES)
    sizes = {name: _size(warehouse / "db.db" / name) for name in TABLES}
    with tempfile.TemporaryDirectory() as home, serve(Path(home), warehouse) as server:
        turn(server, warehouse)  # files get into the page cache, and modules are compiled
        runs = [turn(server, warehouse) for _ in range(options.runs)]
    figures = {
        "tables": len(TABLES),
        "rows": options.rows,
        "largest_table_bytes": max(sizes.values()),
        **{kind: {name: median(run[name][kind] for run in runs) for name in runs[0]} for kind in _KINDS},
        "runs": runs,
        "load_after": os.getloadavg(),
    }
    write_figures("airflow_small", measured, figures, options.figures)
    print(json.dumps(figures, indent=2))


@contextmanager
def serve(home: Path, warehouse: Path) -> Iterator[AirflowServer]:
    """An Airflow with the DAGs of the folder `airflow_dags`."""
    bundles = [{"name": "dags", "classpath": _BUNDLE, "kwargs": {"path": str(_DAGS)}}]
    connection = json.dumps({"conn_type": "lakecore", "host": str(warehouse)})
    environment = {
        "AIRFLOW_CONN_LAKE_DEFAULT": connection,
        "AIRFLOW_CONN_ONE_TASK": connection,
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
    }
    with AirflowServer(home / "airflow", environment) as server:
        for dag_id in (*NIGHTS.values(), *EMPTY.values()):
            server.api.wait(dag_id, partial(server.api.has_dag, dag_id), 120)
            server.api.unpause(dag_id)
        yield server


def turn(server: AirflowServer, warehouse: Path) -> dict[str, Any]:
    """One run of each DAG."""
    nights = {name: compact(server, dag_id, warehouse) for name, dag_id in NIGHTS.items()}
    return nights | {name: run(server, dag_id, {})[0] for name, dag_id in EMPTY.items()}


def compact(server: AirflowServer, dag_id: str, warehouse: Path) -> dict[str, Any]:
    """Compact fresh copies of the tables. Raises RuntimeError if one was not compacted, or has other rows than before."""
    database = warehouse / "db.db"
    copies = [f"{name}_copy_{os.getpid()}" for name in TABLES]
    try:
        for name, copy in zip(TABLES, copies, strict=True):
            shutil.copytree(database / name, database / copy)
        before = _rows(warehouse, copies)
        figures, tasks = run(server, dag_id, {"database": "db", "include": f"*_copy_{os.getpid()}"})
        reports = [server.api.xcom(task) for task in tasks if task["task_id"] == "compact"]
        changed = sum(one["changed"] if "changed" in one else not one["nothing_to_do"] for one in reports)
        if changed != len(TABLES):
            raise RuntimeError(f"{changed} of {len(TABLES)} tables were compacted: {reports}")
        after = _rows(warehouse, copies)
    finally:
        for copy in copies:
            shutil.rmtree(database / copy, ignore_errors=True)
    if after != before:
        raise RuntimeError(f"Java reads {after} rows, and {before} before")
    return figures


def run(
    server: AirflowServer, dag_id: str, conf: Mapping[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The figures of a run, and its tasks."""
    cpu, triggered = _cpu(server), datetime.now(UTC)
    run_id = server.api.trigger(dag_id, conf)

    def ended() -> bool:
        return server.api.run_state(dag_id, run_id) in ENDED

    server.api.wait(f"the end of {dag_id}", ended, _ENDS_AFTER_S)
    [found] = [one for one in server.api.runs(dag_id) if one["dag_run_id"] == run_id]
    tasks = server.api.tasks(dag_id, run_id)
    figures = {
        "seconds": _seconds(triggered, found["end_date"]),
        "cpu_seconds": round(_cpu(server) - cpu, 2),
        "tasks": [
            {
                "task": task["task_id"],
                "queued_after_s": _seconds(triggered, task["queued_when"]),
                "started_after_s": _seconds(triggered, task["start_date"]),
                "ended_after_s": _seconds(triggered, task["end_date"]),
            }
            for task in tasks
        ],
    }
    if found["state"] != "success":
        states = {task["task_id"]: (task["state"], server.api.error(task)) for task in tasks}
        raise RuntimeError(f"{dag_id} ended as {found['state']}: {states}")
    return figures, tasks


def _rows(warehouse: Path, tables: Sequence[str]) -> list[int]:
    """The rows that Java Paimon reads from each table."""
    peer = Contestant("java", [*java("Peer"), str(warehouse), "2"], warehouse / "java.log")
    first, *others = tables
    rows = [peer.first(f"read {first}"), *(peer.ask(f"read {name}") for name in others)]
    peer.close()
    return [int(one.report["rows_out"]) for one in rows]


def _cpu(server: AirflowServer) -> float:
    """CPU seconds of all of Airflow's processes so far, with those of tasks that have ended."""
    return sum(cpu_seconds(pid) for pid in server.processes())


def _seconds(since: datetime, time: str) -> float:
    return round((datetime.fromisoformat(time) - since).total_seconds(), 3)


def _size(table: Path) -> int:
    return sum(file.stat().st_size for file in table.rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
