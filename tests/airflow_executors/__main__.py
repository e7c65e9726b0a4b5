"""`make airflow-celery`, `make airflow-local`: the DAGs of lakecore on Airflow with PostgreSQL, in processes that are killed.

With CeleryExecutor there are Redis and a worker, with LocalExecutor tasks run in the scheduler and the Spark master of the
lake is a standalone cluster of two workers. Needs Debian's package postgresql, and redis-server for Celery. Every DAG runs
over a lake that it knows nothing about, and over the demo's lake with a damaged, a vanished, a held and a busy table; what
runs the tasks, the triggerer, Redis and workers of Spark are killed while tables are compacted; thirty days are backfilled.
At the end fsck finds nothing, and every table has the rows that Java read from it before. A step that fails does not end
the run, but makes the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from lakecore.errors import LakeError
from tests.airflow_executors import chores, kills, spark_kills
from tests.airflow_executors.components import CELERY, LOCAL, ServicesOfAirflow, versions
from tests.airflow_executors.lakes import Lake
from tests.airflow_executors.walk import Walk
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.support.environments import ROOT
from tests.support.postgres import postgres_server
from tests.support.spark_cluster import cluster

Step = Callable[[Walk], dict[str, Any]]

_SETTINGS = """
[airflow]
connections = ["lake_default", "unknown"]
pool = "lakecore"
[airflow.nightly]
schedule = ""
[airflow.maintenance]
schedule = ""
[airflow.survey]
schedule = ""
[airflow.on_snapshot]
schedule = ""
[airflow.compactor]
schedule = ""
run_for = "20 s"
engine = "local"
[airflow.on_asset]
schedule = ""
"""

_BEGIN: Mapping[str, Step] = {
    "every DAG over an empty lake": chores.empty_lake,
    "every DAG over an unknown lake": chores.unknown_lake,
    "every DAG over the lake of the demo": chores.demo_lake,
    "a damaged, a vanished, a held and a busy table": chores.bad_tables,
}
_END: Mapping[str, Step] = {
    "a streaming query that is stopped, cleared and stopped": kills.query_stopped,
    "kill -9 of the triggerer": kills.triggerer_killed,
    "a backfill of thirty days": chores.backfill,
}
STEPS: Mapping[str, Mapping[str, Step]] = {
    CELERY: {
        **_BEGIN,
        "kill -9 of a worker in a compaction": partial(kills.runner_killed, engine="local"),
        "kill -9 of a worker in a compaction on Spark": partial(kills.runner_killed, engine="spark"),
        "kill -9 of a worker's first process alone": kills.runner_main_process_killed,
        "kill -9 of the scheduler": partial(kills.service_killed, service="scheduler"),
        "kill -9 of Redis": partial(kills.service_killed, service="redis"),
        "kill -9 of Redis with tasks in its queue": kills.redis_loses_its_queue,
        **_END,
    },
    LOCAL: {
        **_BEGIN,
        "kill -9 of the scheduler in a compaction": partial(kills.runner_killed, engine="local"),
        "kill -9 of the scheduler in a compaction on Spark": partial(kills.runner_killed, engine="spark"),
        "kill -9 of the scheduler's first process alone": kills.runner_main_process_killed,
        "kill -9 of the scheduler in lakecore_nightly": partial(kills.service_killed, service="scheduler"),
        "kill -9 of a task in a compaction": partial(kills.task_killed, engine="local"),
        "kill -9 of a task in a compaction on Spark": partial(kills.task_killed, engine="spark"),
        "kill -9 of the process that watches a task": kills.watcher_killed,
        "kill -9 of an executor of Spark": spark_kills.executor_killed,
        "kill -9 of an executor of Spark under a dedicated compaction": spark_kills.follow_with_executor_killed,
        "kill -9 of a worker of Spark": spark_kills.spark_worker_killed,
        **_END,
    },
}
"""The steps of each executor, in their order."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--executor", choices=list(STEPS), default=LOCAL)
    parser.add_argument(
        "--only", default="", help="only the steps whose names contain one of these texts, between commas"
    )
    parser.add_argument("--folder", type=Path, default=FIGURES, help="where the figures go")
    options = parser.parse_args()
    if options.executor == CELERY and shutil.which("redis-server") is None:
        raise SystemExit("airflow-celery: install Debian's packages postgresql and redis-server")
    name = "airflow_celery" if options.executor == CELERY else "airflow_local"
    measured = conditions()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as ends:
        home = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="lakecore-airflow-")))
        postgres = ends.enter_context(postgres_server())
        spark = None if options.executor == CELERY else ends.enter_context(cluster(2))
        earlier = _steps(options.folder / f"{name}.json") if options.only else {}
        figures: dict[str, Any] = {"versions": {}, "steps": dict(earlier)}
        lake = _lakes(home)
        lakes = {"lake_default": lake.path, "unknown": home / "unknown"}
        master = "local[1]" if spark is None else spark.master
        airflow = ServicesOfAirflow(home, postgres, options.executor, lakes, master)
        figures["versions"] = versions(airflow.python, options.executor)
        try:
            began = time.monotonic()
            airflow.initialize()
            airflow.start_all()
            walk = Walk(airflow, lake, home / "unknown", spark)
            if options.executor == CELERY:
                walk.new_runner()
            figures["up_after_s"] = round(time.monotonic() - began)
            passed = []
            for step in _chosen(options.executor, options.only):
                figures["steps"][step] = _outcome(partial(STEPS[options.executor][step], walk))
                passed.append(figures["steps"][step]["passed"])
                write_figures(name, measured, figures, options.folder)
                print(f"{name}: {step}: {figures['steps'][step]}", flush=True)
        except BaseException:
            if os.environ.get("KEEP"):
                print(airflow.env, flush=True)
                with suppress(KeyboardInterrupt):
                    time.sleep(3600)
            print(airflow.log_tails(), flush=True)
            raise
        finally:
            airflow.stop()
    return 0 if all(passed) else 1


def _chosen(executor: str, only: str) -> list[str]:
    return [step for step in STEPS[executor] if any(part in step for part in only.split(","))]


def _steps(file: Path) -> dict[str, Any]:
    """The steps of earlier runs; a run of a part replaces its own ones."""
    return dict(json.loads(file.read_text())["figures"]["steps"]) if file.exists() else {}


def _lakes(home: Path) -> Lake:
    """Make the folders of a run: the DAGs with their settings, those of the tests, and the lakes; the demo's lake."""
    without_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "dags", home / "dags", ignore=without_caches)
    shutil.copytree(Path(__file__).parent / "bundle", home / "bundle", ignore=without_caches)
    (home / "dags" / "lakecore.toml").write_text(_SETTINGS)
    (home / "python").mkdir()
    (home / "python" / "tests").symlink_to(ROOT / "tests")
    (home / "unknown").mkdir()
    return Lake.make(home / "lake")


def _outcome(step: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a step came to; the next steps run also after one that failed."""
    began = time.monotonic()
    try:
        found = {"passed": True, **step()}
    except (AssertionError, RuntimeError, TimeoutError, LakeError) as err:
        found = {"passed": False, "error": f"{type(err).__name__}: {err}"[:2000]}
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return {**found, "seconds": round(time.monotonic() - began), "at": at}


if __name__ == "__main__":
    sys.exit(main())
