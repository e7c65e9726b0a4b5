"""The steps in which processes are killed while tables are compacted."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import lakecore
from lakecore.clock import SystemClock
from lakecore.maintain.lease.lease import LeaseTimes, leased
from tests.airflow_executors.components import kill_session
from tests.airflow_executors.walk import SLOW, Walk
from tools.airflow_server import members

__all__ = [
    "query_stopped",
    "redis_loses_its_queue",
    "runner_killed",
    "runner_main_process_killed",
    "service_killed",
    "task_killed",
    "triggerer_killed",
    "watcher_killed",
]


def runner_killed(walk: Walk, engine: str) -> dict[str, Any]:
    """Kill what runs the tasks in the middle of a compaction, with all its processes: a worker of Celery, or the
    scheduler. Another one takes the retry.
    """
    table = walk.lake.place("g1.a_pk_dedup_l0", f"kills.runner_{engine}")
    before, began = walk.lake.data_files(table), time.monotonic()
    run_id = walk.start(SLOW, {"table": table, "engine": engine})
    walk.output_of(SLOW, run_id, table, before)
    killed = walk.airflow.kill(walk.runner)
    cut = time.monotonic()
    walk.new_runner()
    figures = {"processes_killed": killed, "output_after_s": round(cut - began, 1)}
    return {**figures, **_second_try(walk, run_id, cut)}


def runner_main_process_killed(walk: Walk) -> dict[str, Any]:
    """Kill only the first process of what runs the tasks: what it started lives on, and must not work beside the retry."""
    table = walk.lake.place("g1.a_pk_dedup_l0", "kills.main_process")
    before = walk.lake.data_files(table)
    run_id = walk.start(SLOW, {"table": table})
    walk.output_of(SLOW, run_id, table, before)
    old = walk.airflow.kill_main_process(walk.runner)
    left, cut = len(members(old)), time.monotonic()
    walk.new_runner()
    state, [task] = walk.end(SLOW, run_id)
    seconds = round(time.monotonic() - cut, 1)
    still = kill_session(old)
    assert state == "success", walk.api.error(task)
    return {
        "processes_left_behind": left,
        "ended_after_kill_s": seconds,
        "processes_left_at_the_end": still,
        "tries": task["try_number"],
        "tables_checked": walk.lake.check(),
    }


def task_killed(walk: Walk, engine: str) -> dict[str, Any]:
    """Kill the process of a task of LocalExecutor alone, as the kernel does when memory is short."""
    table = walk.lake.place("g1.a_pk_dedup_l0", f"kills.task_{engine}")
    before, others = walk.lake.data_files(table), _java(walk)
    run_id = walk.start(SLOW, {"table": table, "engine": engine})
    walk.output_of(SLOW, run_id, table, before)
    _kill_one(walk, watchers=False)
    cut = time.monotonic()
    walk.api.wait("the end of its session of Spark", lambda: _java(walk) <= others, 60, 0.2)
    figures = {"session_ended_after_kill_s": round(time.monotonic() - cut, 1)} if engine == "spark" else {}
    return {**figures, **_second_try(walk, run_id, cut)}


def watcher_killed(walk: Walk) -> dict[str, Any]:
    """Kill the process of LocalExecutor that watches a task: the task lives on, and must not work beside the retry."""
    table = walk.lake.place("g1.a_pk_dedup_l0", "kills.watcher")
    before = walk.lake.data_files(table)
    run_id = walk.start(SLOW, {"table": table})
    walk.output_of(SLOW, run_id, table, before)
    tasks, compactions = _tasks(walk, watchers=False), walk.lake.compactions(table)
    _kill_one(walk, watchers=True)
    cut = time.monotonic()
    figures = _second_try(walk, run_id, cut)
    left = len(tasks & _tasks(walk, watchers=False))
    walk.api.wait("the end of the first task", lambda: not tasks & _tasks(walk, watchers=False), 240)
    assert walk.lake.compactions(table) == compactions + 1, "the first task has committed beside the retry"
    return {
        **figures,
        "tasks_left_beside_the_retry": left,
        "first_task_ended_after_kill_s": round(time.monotonic() - cut, 1),
        "tables_checked": walk.lake.check(),
    }


def _second_try(walk: Walk, run_id: str, cut: float) -> dict[str, Any]:
    """Wait for a run of the slow compaction; its second try must have compacted the table."""
    state, [task] = walk.end(SLOW, run_id)
    found = (state, task["try_number"])
    assert found == ("success", 2), (found, walk.api.error(task))
    report = walk.api.xcom(task)
    return {
        "committed_after_kill_s": round(time.monotonic() - cut, 1),
        "files": [report["before"]["files"], report["after"]["files"]],
        "tables_checked": walk.lake.check(),
    }


def _kill_one(walk: Walk, *, watchers: bool) -> None:
    found = _tasks(walk, watchers=watchers)
    assert len(found) == 1, f"one task runs: {[_command(pid) for pid in found]}"
    os.kill(found.pop(), signal.SIGKILL)


def _tasks(walk: Walk, *, watchers: bool) -> set[int]:
    """The processes of running tasks of LocalExecutor, or those that watch them, by the titles that Airflow gives them."""
    titles = {pid: _command(pid) for pid in walk.airflow.processes_of(walk.runner)}
    busy = {pid: title for pid, title in titles.items() if "worker -- " in title and "<idle>" not in title}
    return {pid for pid, title in busy.items() if ("LocalExecutor" in title) is watchers}


def query_stopped(walk: Walk) -> dict[str, Any]:
    """Stop a dedicated compaction as a streaming query by hand: in a unit, and after a cleared task has committed."""
    table, dag = walk.lake.place("g1.a_pk_dedup_l0", "kills.query"), "slow_follow"
    before, others, began = walk.lake.data_files(table), _java(walk), time.monotonic()
    checkpoint = walk.airflow.home / "checkpoint"
    tables = table.replace(".", "[.]")
    conf = {"tables": tables, "checkpoint": str(checkpoint), "master": "local[1]"}
    run_id = walk.start(dag, conf)
    walk.api.wait("a unit's output", lambda: walk.lake.data_files(table) - before, 240)
    figures: dict[str, Any] = {"output_after_s": round(time.monotonic() - began, 1)}
    assert _java(walk) - others, "the session runs"

    def stop(name: str) -> None:
        cut = time.monotonic()
        task = f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances/follow"
        walk.api.call("PATCH", task, {"new_state": "failed"})
        walk.api.wait("the end of the session", lambda: _java(walk) <= others, 60)
        state, _ = walk.end(dag, run_id)
        assert state == "failed", state
        figures[name] = round(time.monotonic() - cut, 1)

    stop("stopped_in_a_unit_s")
    assert walk.lake.data_files(table) == before, "a unit that was stopped left its output"
    clear = {"dry_run": False, "dag_run_id": run_id, "task_ids": ["follow"], "only_failed": True}
    began = time.monotonic()
    walk.api.call("POST", f"/api/v2/dags/{dag}/clearTaskInstances", clear)
    snapshots = walk.lake.folder(table) / "snapshot"
    count = len(list(snapshots.glob("snapshot-*")))
    walk.api.wait("a compaction", lambda: len(list(snapshots.glob("snapshot-*"))) > count, 240)
    figures["committed_after_clear_s"] = round(time.monotonic() - began, 1)
    time.sleep(2)
    stop("stopped_while_idle_s")
    assert len(list(snapshots.glob("snapshot-*"))) == count + 1, "one compaction is committed"
    return {**figures, "tables_checked": walk.lake.check()}


def _java(walk: Walk) -> set[int]:
    """The processes of Java that tasks have started."""
    return {pid for pid in walk.airflow.processes_of(walk.runner) if "java" in _command(pid)}


def service_killed(walk: Walk, service: str) -> dict[str, Any]:
    """Kill and restart a service in the middle of a run of lakecore_nightly over tables that need it."""
    names = [walk.lake.place("g1.a_pk_dedup_l0", f"kills_{service.replace('-', '_')}.t{n}") for n in range(4)]
    database = names[0].partition(".")[0]
    conf = {"database": database, "strategy": "full", "engine": "local", "until": ""}
    run_id = walk.start("lakecore_nightly", conf)

    def begun() -> bool:
        return any(task["state"] == "running" for task in walk.api.tasks("lakecore_nightly", run_id))

    walk.api.wait("a running task", begun, 120, 0.2)
    walk.airflow.kill(service)
    time.sleep(3)
    cut = time.monotonic()
    walk.airflow.start_redis() if service == "redis" else walk.airflow.start(service)
    state, tasks = walk.end("lakecore_nightly", run_id)
    errors = {task["task_id"]: walk.api.error(task) for task in tasks if task["state"] == "failed"}
    assert state == "success", errors
    return {
        "ended_after_restart_s": round(time.monotonic() - cut, 1),
        "tables_checked": walk.lake.check(),
    }


def redis_loses_its_queue(walk: Walk) -> dict[str, Any]:
    """Tasks are queued while no worker is there, and Redis loses them: Airflow queues them again."""
    table = walk.lake.place("g1.a_pk_dedup_l0", "kills.queue")
    walk.airflow.kill(walk.runner)
    run_id = walk.start(
        "lakecore_nightly", {"include": table, "strategy": "full", "engine": "local", "until": ""}
    )

    def queued() -> bool:
        return any(task["state"] == "queued" for task in walk.api.tasks("lakecore_nightly", run_id))

    walk.api.wait("a queued task", queued, 60)
    time.sleep(2)
    walk.airflow.kill("redis")
    walk.airflow.start_redis()
    cut = time.monotonic()
    walk.new_runner()
    state, tasks = walk.end("lakecore_nightly", run_id)
    assert state == "success", {task["task_id"]: (task["state"], walk.api.error(task)) for task in tasks}
    return {
        "ended_after_restart_s": round(time.monotonic() - cut, 1),
        "tables_checked": walk.lake.check(),
    }


def triggerer_killed(walk: Walk) -> dict[str, Any]:
    """Kill the triggerer while a task waits in it for the lease of its table."""
    table = walk.lake.place("g1.a_pk_dedup_l0", "kills.lease")
    catalog = lakecore.load_catalog(str(walk.lake.path))
    conf = {"action": "compact", "table": table, "strategy": "full", "engine": "local", "dry_run": False}

    def deferred() -> bool:
        return any(task["state"] == "deferred" for task in walk.api.tasks("lakecore_adhoc", run_id))

    with leased(catalog.file_io, catalog.warehouse, table, "somebody", SystemClock(), LeaseTimes(600_000)):
        run_id = walk.start("lakecore_adhoc", conf)
        walk.api.wait("a deferred task", deferred, 120)
        walk.airflow.kill("triggerer")
        walk.airflow.start("triggerer")
        time.sleep(10)
        assert deferred(), "the task waits on"
    cut = time.monotonic()
    state, tasks = walk.end("lakecore_adhoc", run_id)
    [task] = [task for task in tasks if task["task_id"] == "compact"]
    assert (state, task["state"], task["try_number"]) == ("success", "success", 1), walk.api.error(task)
    assert walk.api.xcom(task)["picks_done"] == 1
    return {
        "ended_after_release_s": round(time.monotonic() - cut, 1),
        "tables_checked": walk.lake.check(),
    }


def _command(pid: int) -> str:
    """The program of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""
