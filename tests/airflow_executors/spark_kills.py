"""The steps in which executors and workers of a standalone cluster of Spark are killed under a compaction."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.airflow_executors.walk import SLOW, Walk
from tests.support.spark_cluster import Cluster, processes_below

__all__ = ["executor_killed", "follow_with_executor_killed", "spark_worker_killed"]

_SECONDS = 25
"""How long units sleep here, in each of their tries."""


def executor_killed(walk: Walk) -> dict[str, Any]:
    """Kill the executor that has written a unit's output: Spark repeats the unit on another one."""
    return _unit_killed(walk, "executor", _kill_executor)


def spark_worker_killed(walk: Walk) -> dict[str, Any]:
    """Kill the worker of Spark whose executor has written a unit's output, with all below it; another one is left."""
    return _unit_killed(walk, "spark_worker", _kill_worker)


def _unit_killed(walk: Walk, name: str, kill: Callable[[Cluster], int]) -> dict[str, Any]:
    table = walk.lake.place("g1.a_pk_dedup_l0", f"kills.{name}")
    before = walk.lake.data_files(table)
    run_id = walk.start(SLOW, {"table": table, "engine": "spark", "seconds": _SECONDS})
    walk.output_of(SLOW, run_id, table, before)
    cut, killed = time.monotonic(), kill(_cluster(walk))
    state, [task] = walk.end(SLOW, run_id)
    found = (state, task["try_number"])
    assert found == ("success", 1), (found, walk.api.error(task))
    report = walk.api.xcom(task)
    return {
        "processes_killed": killed,
        "committed_after_kill_s": round(time.monotonic() - cut, 1),
        "files": [report["before"]["files"], report["after"]["files"]],
        "tables_checked": walk.lake.check(),
    }


def follow_with_executor_killed(walk: Walk) -> dict[str, Any]:
    """Kill an executor under DedicatedCompactionOperator, the operator of lakecore_compactor, which follows two tables."""
    names = [walk.lake.place("g1.a_pk_dedup_l0", f"follow.t{number}") for number in range(2)]
    before = {name: walk.lake.data_files(name) for name in names}
    conf = {"tables": "follow[.].*", "run_for": "20 s", "seconds": _SECONDS}
    run_id = walk.start("slow_follow", conf)

    def written() -> bool:
        return any(walk.lake.data_files(name) - before[name] for name in names)

    walk.api.wait("a unit's output", written, 240)
    cut, killed = time.monotonic(), _kill_executor(_cluster(walk))
    state, [task] = walk.end("slow_follow", run_id)
    assert state == "success", walk.api.error(task)
    compactions = {name: walk.lake.compactions(name) for name in names}
    assert set(compactions.values()) == {1}, compactions
    return {
        "processes_killed": killed,
        "ended_after_kill_s": round(time.monotonic() - cut, 1),
        "compactions": sum(compactions.values()),
        "tables_checked": walk.lake.check(),
    }


def _cluster(walk: Walk) -> Cluster:
    assert walk.spark is not None, "this step needs a cluster of Spark"
    return walk.spark


def _kill_executor(cluster: Cluster) -> int:
    """Kill an executor with its Python processes; how many processes that were."""
    [(_, executor), *_] = cluster.with_units()
    return _kill([executor, *(pid for pid, _ in processes_below(executor))])


def _kill_worker(cluster: Cluster) -> int:
    """Kill a worker with its executors, as the end of its machine does; how many processes that were."""
    [(worker, _), *_] = cluster.with_units()
    return _kill([worker, *(pid for pid, _ in processes_below(worker))])


def _kill(pids: list[int]) -> int:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)
