"""The steps in which nothing is killed: every DAG over lakes that it knows or does not know, bad tables, a backfill."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Mapping
from datetime import date
from typing import Any

import lakecore
from lakecore.clock import SystemClock
from lakecore.maintain.lease.lease import LeaseTimes, leased
from tests.airflow_executors.lakes import digests
from tests.airflow_executors.walk import Walk
from tests.support.golden import golden_table

__all__ = ["backfill", "bad_tables", "demo_lake", "empty_lake", "unknown_lake"]

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


def empty_lake(walk: Walk) -> dict[str, Any]:
    return {dag: walk.counts(walk.run(f"lakecore_{dag}__unknown", conf)) for dag, conf in DAGS.items()}


def unknown_lake(walk: Walk) -> dict[str, Any]:
    for name in STRANGE:
        source = golden_table(name)
        shutil.copytree(source.path, walk.unknown / "strange.db" / source.table)
    before = digests(walk.unknown)
    counts = {dag: walk.counts(walk.run(f"lakecore_{dag}__unknown", conf)) for dag, conf in DAGS.items()}
    after = digests(walk.unknown)
    gone = sorted(
        path for path, digest in before.items() if after.get(path) != digest and "/snapshot/" not in path
    )
    assert not gone, f"files were removed or changed that nobody's policy names: {gone}"
    return {"runs": counts, "files_before": len(before), "files_after": len(after), "files_removed": 0}


def demo_lake(walk: Walk) -> dict[str, Any]:
    counts = {dag: walk.counts(walk.run(f"lakecore_{dag}", conf)) for dag, conf in DAGS.items()}
    return {"runs": counts, "tables_checked": walk.lake.check()}


def bad_tables(walk: Walk) -> dict[str, Any]:
    """A damaged and a vanished table fail alone; a busy one is waited for; a held one keeps all its files."""
    for name in ("damaged", "vanished", "held", "busy", "good"):
        walk.lake.place("g1.a_pk_dedup_l0", f"bad.{name}")
    walk.lake.damage("bad.damaged")
    walk.lake.lose_schema("bad.vanished")
    adhoc = {"action": "hold", "table": "bad.held", "reason": "a test", "dry_run": False}
    walk.run("lakecore_adhoc", adhoc)
    catalog = lakecore.load_catalog(str(walk.lake.path))
    with leased(
        catalog.file_io, catalog.warehouse, "bad.busy", "somebody", SystemClock(), LeaseTimes(600_000)
    ):
        conf = {"database": "bad", "strategy": "full", "engine": "local", "until": ""}
        run_id = walk.start("lakecore_nightly", conf)

        def busy() -> bool:
            return any(task["state"] == "up_for_retry" for task in walk.api.tasks("lakecore_nightly", run_id))

        walk.api.wait("a task that meets the lease", busy, 240)
    state, tasks = walk.end("lakecore_nightly", run_id)
    compacted = walk.states([task for task in tasks if task["task_id"] == "compact"])
    [again] = [task for task in tasks if str(task["rendered_map_index"]).startswith("bad.busy")]
    assert again["try_number"] == 2, "the first try met the lease"
    failed = sorted(name for name, one in compacted.items() if one == "failed")
    assert (state, failed) == ("failed", ["bad.damaged", "bad.vanished"]), compacted
    policy = [{"tables": ["bad.*"], "chores": {"expire-snapshots": {"retain-max": 1, "retain-min": 1}}}]
    held = walk.lake.data_files("bad.held")
    state, tasks = walk.end(
        "lakecore_maintenance", walk.start("lakecore_maintenance", {"policy": policy, "until": ""})
    )
    maintained = walk.states([task for task in tasks if task["task_id"] == "maintain"])
    assert held == walk.lake.data_files("bad.held"), "files of a held table were removed"
    walk.run("lakecore_adhoc", adhoc | {"action": "release"})
    return {"compact": compacted, "maintain": maintained, "tables_checked": walk.lake.check()}


def backfill(walk: Walk) -> dict[str, Any]:
    """Thirty days of lakecore_partition at once, and the same again."""
    table = walk.lake.make_days("past.days", date(2024, 1, 1), 30)
    walk.api.wait("lakecore_partition", lambda: walk.api.has_dag("lakecore_partition"), 120)
    walk.api.unpause("lakecore_partition")  # the runs of a backfill of a paused DAG stay queued
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
        backfill = walk.api.create_backfill(request)

        def completed(backfill: int = backfill) -> bool:
            return bool(walk.api.call("GET", f"/api/v2/backfills/{backfill}")["completed_at"])

        walk.api.wait("the end of the backfill", completed, 1800, 2)
        runs = [run for run in walk.api.runs("lakecore_partition") if run["run_type"] == "backfill"]
        assert {run["state"] for run in runs} == {"success"}, Counter(run["state"] for run in runs)
        tries = [
            task["try_number"]
            for run in runs
            for task in walk.api.tasks("lakecore_partition", run["dag_run_id"])
            if task["task_id"] == "compact" and task["state"] == "success"
        ]
        figures[turn] = {
            "runs": len(runs),
            "compactions": walk.lake.compactions(table),
            "seconds": round(time.monotonic() - began),
            "most_tries": max(tries),
        }
    assert figures["first"]["compactions"] == figures["second"]["compactions"] == 30, figures
    return {**figures, "tables_checked": walk.lake.check()}
