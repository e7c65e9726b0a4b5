"""`make airflow-celery`: the DAGs of lakecore on Airflow with CeleryExecutor, PostgreSQL and Redis, with workers that are killed.

Needs Debian's packages postgresql and redis-server. Every DAG runs over a lake that it knows nothing about, and over the
demo's lake with a damaged, a vanished, a held and a busy table; workers, the scheduler, the triggerer and Redis are killed
while tables are compacted; thirty days are backfilled. At the end fsck finds nothing, and every table has the rows that
Java read from it before. A step that fails does not end the run, but makes the exit code 1.
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
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import lakecore
from lakecore.clock import SystemClock
from lakecore.errors import LakeError
from lakecore.maintain.lease.lease import LeaseTimes, leased
from tests.airflow_celery.components import CeleryAirflow, versions
from tests.airflow_celery.lakes import Lake, digests
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.support.environments import ROOT
from tests.support.golden import golden_table
from tests.support.postgres import postgres_server
from tools.airflow_api import ENDED

STRANGE = (
    "g1.a_append_bucket_auto",
    "g1.a_life_empty",
    "g1.a_old082_append",
    "g1.a_pk_dedup_b3_part",
    "g1.a_pk_dedup_l0",
    "g1.a_pk_postpone",
)
DAGS: Mapping[str, Mapping[str, Any]] = {
    "nightly": {"until": ""},
    "maintenance": {},
    "batch_tags": {},
    "partition": {},
    "on_snapshot": {},
    "survey": {},
    "compactor": {"engine": "local", "run_for": "20 s", "interval": 5},
    "on_asset": {},
}
"""The DAGs that have a schedule, and the params without which they would run for a day."""
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
_END_S = 900.0


class Walk:
    """The steps of the run. Each says what it found; a step that finds something wrong raises AssertionError."""

    def __init__(self, airflow: CeleryAirflow, lake: Lake, unknown: Path) -> None:
        self.airflow = airflow
        self.api = airflow.api
        self.lake = lake
        self.unknown = unknown
        self._worker = 0

    def output_of(self, run_id: str, table: str, before: set[str]) -> None:
        """Wait until a unit of the slow compaction has written a file. Raises AssertionError if the run ends before."""

        def written() -> bool:
            if self.api.run_state("celery_kill", run_id) in ENDED:
                [task] = self.api.tasks("celery_kill", run_id)
                raise AssertionError(f"the compaction ended: {self.api.error(task)}")
            return bool(self.lake.data_files(table) - before)

        self.api.wait("a unit's output", written, 240)

    def new_worker(self) -> str:
        self._worker += 1
        name = f"worker-{self._worker}"
        self.airflow.start_worker(name)
        return name

    @property
    def worker(self) -> str:
        return f"worker-{self._worker}"

    def start(self, dag: str, conf: Mapping[str, Any]) -> str:
        self.api.wait(dag, lambda: self.api.has_dag(dag), 120)
        self.api.unpause(dag)
        return self.api.trigger(dag, conf)

    def end(self, dag: str, run_id: str) -> tuple[str, list[dict[str, Any]]]:
        self.api.wait(f"the end of {dag}", lambda: self.api.run_state(dag, run_id) in ENDED, _END_S)
        return self.api.run_state(dag, run_id), self.api.tasks(dag, run_id)

    def run(self, dag: str, conf: Mapping[str, Any]) -> list[dict[str, Any]]:
        """A run that must end well; its tasks."""
        state, tasks = self.end(dag, self.start(dag, conf))
        errors = {task["task_id"]: self.api.error(task) for task in tasks if task["state"] == "failed"}
        assert state == "success", f"{dag} ended as {state}: {errors}"
        return tasks

    def states(self, tasks: list[dict[str, Any]]) -> dict[str, str]:
        """The state of each mapped task by its table."""
        return {
            str(task["rendered_map_index"]).partition(" · ")[0]: task["state"]
            for task in tasks
            if task["map_index"] >= 0
        }

    # the unknown lake

    def empty_lake(self) -> dict[str, Any]:
        return {dag: self._counts(self.run(f"lakecore_{dag}__unknown", conf)) for dag, conf in DAGS.items()}

    def unknown_lake(self) -> dict[str, Any]:
        for name in STRANGE:
            source = golden_table(name)
            shutil.copytree(source.path, self.unknown / "strange.db" / source.table)
        before = digests(self.unknown)
        counts = {dag: self._counts(self.run(f"lakecore_{dag}__unknown", conf)) for dag, conf in DAGS.items()}
        after = digests(self.unknown)
        gone = sorted(
            path for path, digest in before.items() if after.get(path) != digest and "/snapshot/" not in path
        )
        assert not gone, f"files were removed or changed that nobody's policy names: {gone}"
        return {"runs": counts, "files_before": len(before), "files_after": len(after), "files_removed": 0}

    def _counts(self, tasks: list[dict[str, Any]]) -> dict[str, int]:
        return dict(Counter(str(task["state"]) for task in tasks))

    # the lake of the demo

    def demo_lake(self) -> dict[str, Any]:
        counts = {dag: self._counts(self.run(f"lakecore_{dag}", conf)) for dag, conf in DAGS.items()}
        return {"runs": counts, "tables_checked": self.lake.check()}

    def bad_tables(self) -> dict[str, Any]:
        """A damaged and a vanished table fail alone; a busy one is waited for; a held one keeps all its files."""
        for name in ("damaged", "vanished", "held", "busy", "good"):
            self.lake.place("g1.a_pk_dedup_l0", f"bad.{name}")
        self.lake.damage("bad.damaged")
        self.lake.lose_schema("bad.vanished")
        adhoc = {"action": "hold", "table": "bad.held", "reason": "a test", "dry_run": False}
        self.run("lakecore_adhoc", adhoc)
        catalog = lakecore.load_catalog(str(self.lake.path))
        with leased(
            catalog.file_io, catalog.warehouse, "bad.busy", "somebody", SystemClock(), LeaseTimes(600_000)
        ):
            conf = {"database": "bad", "strategy": "full", "engine": "local", "until": ""}
            run_id = self.start("lakecore_nightly", conf)

            def busy() -> bool:
                return any(
                    task["state"] == "up_for_retry" for task in self.api.tasks("lakecore_nightly", run_id)
                )

            self.api.wait("a task that meets the lease", busy, 240)
        state, tasks = self.end("lakecore_nightly", run_id)
        compacted = self.states([task for task in tasks if task["task_id"] == "compact"])
        [again] = [task for task in tasks if str(task["rendered_map_index"]).startswith("bad.busy")]
        assert again["try_number"] == 2, "the first try met the lease"
        failed = sorted(name for name, one in compacted.items() if one == "failed")
        assert (state, failed) == ("failed", ["bad.damaged", "bad.vanished"]), compacted
        policy = [{"tables": ["bad.*"], "chores": {"expire-snapshots": {"retain-max": 1, "retain-min": 1}}}]
        held = self.lake.data_files("bad.held")
        state, tasks = self.end(
            "lakecore_maintenance", self.start("lakecore_maintenance", {"policy": policy, "until": ""})
        )
        maintained = self.states([task for task in tasks if task["task_id"] == "maintain"])
        assert held == self.lake.data_files("bad.held"), "files of a held table were removed"
        self.run("lakecore_adhoc", adhoc | {"action": "release"})
        return {"compact": compacted, "maintain": maintained, "tables_checked": self.lake.check()}

    # kills

    def worker_killed(self, engine: str) -> dict[str, Any]:
        """Kill the worker in the middle of a compaction, with all its processes; another one takes the retry."""
        table = self.lake.place("g1.a_pk_dedup_l0", f"kills.worker_{engine}")
        before, began = self.lake.data_files(table), time.monotonic()
        run_id = self.start("celery_kill", {"table": table, "engine": engine})
        self.output_of(run_id, table, before)
        killed = self.airflow.kill(self.worker)
        cut = time.monotonic()
        self.new_worker()
        state, [task] = self.end("celery_kill", run_id)
        assert (state, task["try_number"]) == ("success", 2), (
            state,
            task["try_number"],
            self.api.error(task),
        )
        report = self.api.xcom(task)
        return {
            "processes_killed": killed,
            "output_after_s": round(cut - began, 1),
            "committed_after_kill_s": round(time.monotonic() - cut, 1),
            "files": [report["before"]["files"], report["after"]["files"]],
            "tables_checked": self.lake.check(),
        }

    def worker_main_process_killed(self) -> dict[str, Any]:
        """Kill only the first process of the worker: what it started lives on, and must not work beside the retry."""
        table = self.lake.place("g1.a_pk_dedup_l0", "kills.main_process")
        before = self.lake.data_files(table)
        run_id = self.start("celery_kill", {"table": table})
        self.output_of(run_id, table, before)
        old = self.worker
        left = self.airflow.kill_main_process(old)
        cut = time.monotonic()
        self.new_worker()
        state, [task] = self.end("celery_kill", run_id)
        seconds = round(time.monotonic() - cut, 1)
        still = len(self.airflow.left_of(old))
        self.airflow.kill(old)
        assert state == "success", self.api.error(task)
        return {
            "processes_left_behind": len(left),
            "ended_after_kill_s": seconds,
            "processes_left_at_the_end": still,
            "tries": task["try_number"],
            "tables_checked": self.lake.check(),
        }

    def query_stopped(self) -> dict[str, Any]:
        """Stop a dedicated compaction as a streaming query by hand: in a unit, and after a cleared task has committed."""
        table, dag = self.lake.place("g1.a_pk_dedup_l0", "kills.query"), "celery_query"
        before, others, began = self.lake.data_files(table), self._java(), time.monotonic()
        checkpoint = self.airflow.home / "checkpoint"
        run_id = self.start(dag, {"tables": table.replace(".", "[.]"), "checkpoint": str(checkpoint)})
        self.api.wait("a unit's output", lambda: self.lake.data_files(table) - before, 240)
        figures: dict[str, Any] = {"output_after_s": round(time.monotonic() - began, 1)}
        assert self._java() - others, "the session runs"

        def stop(name: str) -> None:
            cut = time.monotonic()
            task = f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances/follow"
            self.api.call("PATCH", task, {"new_state": "failed"})
            self.api.wait("the end of the session", lambda: self._java() <= others, 60)
            state, _ = self.end(dag, run_id)
            assert state == "failed", state
            figures[name] = round(time.monotonic() - cut, 1)

        stop("stopped_in_a_unit_s")
        assert self.lake.data_files(table) == before, "a unit that was stopped left its output"
        clear = {"dry_run": False, "dag_run_id": run_id, "task_ids": ["follow"], "only_failed": True}
        began = time.monotonic()
        self.api.call("POST", f"/api/v2/dags/{dag}/clearTaskInstances", clear)
        snapshots = self.lake.folder(table) / "snapshot"
        count = len(list(snapshots.glob("snapshot-*")))
        self.api.wait("a compaction", lambda: len(list(snapshots.glob("snapshot-*"))) > count, 240)
        figures["committed_after_clear_s"] = round(time.monotonic() - began, 1)
        time.sleep(2)
        stop("stopped_while_idle_s")
        assert len(list(snapshots.glob("snapshot-*"))) == count + 1, "one compaction is committed"
        return {**figures, "tables_checked": self.lake.check()}

    def _java(self) -> set[int]:
        """The processes of Java that tasks of the worker have started."""
        return {pid for pid in self.airflow.left_of(self.worker) if "java" in _command(pid)}

    def service_killed(self, service: str) -> dict[str, Any]:
        """Kill and restart a service in the middle of a run of lakecore_nightly over tables that need it."""
        names = [
            self.lake.place("g1.a_pk_dedup_l0", f"kills_{service.replace('-', '_')}.t{n}") for n in range(4)
        ]
        database = names[0].partition(".")[0]
        conf = {"database": database, "strategy": "full", "engine": "local", "until": ""}
        run_id = self.start("lakecore_nightly", conf)

        def begun() -> bool:
            return any(task["state"] == "running" for task in self.api.tasks("lakecore_nightly", run_id))

        self.api.wait("a running task", begun, 120, 0.2)
        self.airflow.kill(service)
        time.sleep(3)
        cut = time.monotonic()
        self.airflow.start_redis() if service == "redis" else self.airflow.start(service)
        state, tasks = self.end("lakecore_nightly", run_id)
        errors = {task["task_id"]: self.api.error(task) for task in tasks if task["state"] == "failed"}
        assert state == "success", errors
        return {
            "ended_after_restart_s": round(time.monotonic() - cut, 1),
            "tables_checked": self.lake.check(),
        }

    def redis_loses_its_queue(self) -> dict[str, Any]:
        """Tasks are queued while no worker is there, and Redis loses them: Airflow queues them again."""
        table = self.lake.place("g1.a_pk_dedup_l0", "kills.queue")
        self.airflow.kill(self.worker)
        run_id = self.start(
            "lakecore_nightly", {"include": table, "strategy": "full", "engine": "local", "until": ""}
        )

        def queued() -> bool:
            return any(task["state"] == "queued" for task in self.api.tasks("lakecore_nightly", run_id))

        self.api.wait("a queued task", queued, 60)
        time.sleep(2)
        self.airflow.kill("redis")
        self.airflow.start_redis()
        cut = time.monotonic()
        self.new_worker()
        state, tasks = self.end("lakecore_nightly", run_id)
        assert state == "success", {task["task_id"]: (task["state"], self.api.error(task)) for task in tasks}
        return {
            "ended_after_restart_s": round(time.monotonic() - cut, 1),
            "tables_checked": self.lake.check(),
        }

    def triggerer_killed(self) -> dict[str, Any]:
        """Kill the triggerer while a task waits in it for the lease of its table."""
        table = self.lake.place("g1.a_pk_dedup_l0", "kills.lease")
        catalog = lakecore.load_catalog(str(self.lake.path))
        conf = {"action": "compact", "table": table, "strategy": "full", "engine": "local", "dry_run": False}

        def deferred() -> bool:
            return any(task["state"] == "deferred" for task in self.api.tasks("lakecore_adhoc", run_id))

        with leased(
            catalog.file_io, catalog.warehouse, table, "somebody", SystemClock(), LeaseTimes(600_000)
        ):
            run_id = self.start("lakecore_adhoc", conf)
            self.api.wait("a deferred task", deferred, 120)
            self.airflow.kill("triggerer")
            self.airflow.start("triggerer")
            time.sleep(10)
            assert deferred(), "the task waits on"
        cut = time.monotonic()
        state, tasks = self.end("lakecore_adhoc", run_id)
        [task] = [task for task in tasks if task["task_id"] == "compact"]
        assert (state, task["state"], task["try_number"]) == ("success", "success", 1), self.api.error(task)
        assert self.api.xcom(task)["picks_done"] == 1
        return {
            "ended_after_release_s": round(time.monotonic() - cut, 1),
            "tables_checked": self.lake.check(),
        }

    def backfill(self) -> dict[str, Any]:
        """Thirty days of lakecore_partition at once, and the same again."""
        table = self.lake.make_days("past.days", date(2024, 1, 1), 30)
        self.api.wait("lakecore_partition", lambda: self.api.has_dag("lakecore_partition"), 120)
        self.api.unpause("lakecore_partition")  # the runs of a backfill of a paused DAG stay queued
        request = {
            "dag_id": "lakecore_partition",
            "from_date": "2024-01-02T00:00:00Z",  # of the times that runs start: at 01:30 for the day before
            "to_date": "2024-01-31T12:00:00Z",
            "dag_run_conf": {"include": table, "engine": "local"},
            "reprocess_behavior": "completed",
            "max_active_runs": 10,
        }
        figures: dict[str, Any] = {}
        for turn in ("first", "second"):
            began = time.monotonic()
            backfill = self.api.create_backfill(request)

            def completed(backfill: int = backfill) -> bool:
                return bool(self.api.call("GET", f"/api/v2/backfills/{backfill}")["completed_at"])

            self.api.wait("the end of the backfill", completed, 1800, 2)
            runs = [run for run in self.api.runs("lakecore_partition") if run["run_type"] == "backfill"]
            assert {run["state"] for run in runs} == {"success"}, Counter(run["state"] for run in runs)
            tries = [
                task["try_number"]
                for run in runs
                for task in self.api.tasks("lakecore_partition", run["dag_run_id"])
                if task["task_id"] == "compact" and task["state"] == "success"
            ]
            figures[turn] = {
                "runs": len(runs),
                "compactions": self.lake.compactions(table),
                "seconds": round(time.monotonic() - began),
                "most_tries": max(tries),
            }
        assert figures["first"]["compactions"] == figures["second"]["compactions"] == 30, figures
        return {**figures, "tables_checked": self.lake.check()}

    def steps(self) -> dict[str, Callable[[], dict[str, Any]]]:
        return {
            "every DAG over an empty lake": self.empty_lake,
            "every DAG over an unknown lake": self.unknown_lake,
            "every DAG over the lake of the demo": self.demo_lake,
            "a damaged, a vanished, a held and a busy table": self.bad_tables,
            "kill -9 of a worker in a compaction": lambda: self.worker_killed("local"),
            "kill -9 of a worker in a compaction on Spark": lambda: self.worker_killed("spark"),
            "kill -9 of a worker's first process alone": self.worker_main_process_killed,
            "a streaming query that is stopped, cleared and stopped": self.query_stopped,
            "kill -9 of the scheduler": lambda: self.service_killed("scheduler"),
            "kill -9 of Redis": lambda: self.service_killed("redis"),
            "kill -9 of Redis with tasks in its queue": self.redis_loses_its_queue,
            "kill -9 of the triggerer": self.triggerer_killed,
            "a backfill of thirty days": self.backfill,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", default="", help="only the steps whose names contain one of these texts, between commas"
    )
    parser.add_argument("--folder", type=Path, default=FIGURES, help="where the figures go")
    options = parser.parse_args()
    missing = [tool for tool in ("redis-server",) if shutil.which(tool) is None]
    if missing:
        raise SystemExit(
            f"airflow-celery: {', '.join(missing)} missing; install Debian's packages postgresql and redis-server"
        )
    measured = conditions()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="lakecore-celery-") as folder, postgres_server() as postgres:
        home = Path(folder)
        earlier = _steps(options.folder) if options.only else {}

        def record(figures: dict[str, Any]) -> None:
            steps = {name: one for name, one in earlier.items() if name not in figures["steps"]}
            whole = {**figures, "steps": steps | figures["steps"]}
            write_figures("airflow_celery", measured, whole, options.folder)

        figures = _walk(home, postgres, options.only, record)
    return 0 if all(step["passed"] for step in figures["steps"].values()) else 1


def _steps(folder: Path) -> dict[str, Any]:
    """The steps of earlier runs; a run of a part replaces its own ones."""
    file = folder / "airflow_celery.json"
    return dict(json.loads(file.read_text())["figures"]["steps"]) if file.exists() else {}


def _walk(home: Path, postgres: Any, only: str, record: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Run the steps, and record the figures after each."""
    shutil.copytree(ROOT / "dags", home / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(
        Path(__file__).parent / "bundle", home / "bundle", ignore=shutil.ignore_patterns("__pycache__")
    )
    (home / "dags" / "lakecore.toml").write_text(_SETTINGS)
    (home / "python").mkdir()
    (home / "python" / "tests").symlink_to(ROOT / "tests")
    (home / "unknown").mkdir()
    lake = Lake.make(home / "lake")
    airflow = CeleryAirflow(home, postgres, lake.path, home / "unknown")
    figures: dict[str, Any] = {"versions": versions(airflow.python), "steps": {}}
    try:
        began = time.monotonic()
        airflow.initialize()
        airflow.start_all()
        walk = Walk(airflow, lake, home / "unknown")
        walk.new_worker()
        figures["up_after_s"] = round(time.monotonic() - began)
        for name, step in walk.steps().items():
            if any(part in name for part in only.split(",")):
                began = time.monotonic()
                figures["steps"][name] = {
                    **_outcome(step),
                    "seconds": round(time.monotonic() - began),
                    "at": datetime.now(UTC).isoformat(timespec="seconds"),
                }
                record(figures)
                print(f"airflow-celery: {name}: {figures['steps'][name]}", flush=True)
    except BaseException:
        if os.environ.get("KEEP"):
            print(airflow.env, flush=True)
            with suppress(KeyboardInterrupt):
                time.sleep(3600)
        print(airflow.log_tails(), flush=True)
        raise
    finally:
        airflow.stop()
    return figures


def _command(pid: int) -> str:
    """The program of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""


def _outcome(step: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a step came to; the next steps run also after one that failed."""
    try:
        return {"passed": True, **step()}
    except (AssertionError, RuntimeError, TimeoutError, LakeError) as err:
        return {"passed": False, "error": f"{type(err).__name__}: {err}"[:2000]}


if __name__ == "__main__":
    sys.exit(main())
