"""`make compose-test`: the images are built, the stack comes up, its DAGs run over S3 on the Spark cluster, and it is killed in parts.

Needs podman, buildah and mmdebstrap (Debian's packages) and Go; takes some twenty minutes. A
failure ends it with what failed; `KEEP=1` leaves the stack running.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from tests.docker.stack import WORK, Stack, build_images, run, say
from tools.airflow_api import ENDED, AirflowApi

_AIRFLOW = ("api-server", "scheduler", "dag-processor", "triggerer")
_WORKERS = ("spark-worker-1", "spark-worker-2")
_CONFIG = '[airflow]\nconnections = ["lake_default"]\npool = "lakecore"\n[airflow.submit]\nconn_id = "spark_default"\n[airflow.nightly]\nschedule = ""\n[airflow.maintenance]\nschedule = ""\n[airflow.survey]\nschedule = ""\n'
_MAX_BYTES = 1_500_000_000
_RUN_S = 420


def main() -> int:
    began = time.monotonic()
    _check_tools()
    say("building the images")
    build_images()
    sizes = _check_sizes()
    say(f"images: {', '.join(f'{name} {size / 1e6:.0f} MB' for name, size in sizes.items())}")
    stack = Stack(_CONFIG)
    try:
        _walk(stack)
    finally:
        if not os.environ.get("KEEP"):
            stack.down(volumes=True)
    say(f"all of it passed, {time.monotonic() - began:.0f} s")
    return 0


def _walk(stack: Stack) -> None:
    began = time.monotonic()
    _start(stack)
    say(f"up and healthy after {time.monotonic() - began:.0f} s")
    _check_confinement(stack)
    api = _login(stack)
    before = _fsck(stack)
    reports = _compact(api, {"engine": "spark", "strategy": "full", "until": ""})
    _check(
        all(report["engine"] == "spark" for report in reports),
        f"every table is compacted on Spark: {reports}",
    )
    _check(sum(report["picks_done"] for report in reports) > 0, "something was compacted")
    executors = sum(stack.logs(worker).count("Asked to launch executor") for worker in _WORKERS)
    _check(executors > 0, "the executors ran on the workers")
    _check(_fsck(stack) == before, "fsck finds the tables clean, and their rows are as many as before")
    reports = _compact(api, {"engine": "submit", "strategy": "full", "until": "", "include": "shop.orders"})
    _check([report["engine"] for report in reports] == ["spark"], f"a driver was submitted: {reports}")
    for dag in ("lakecore_survey", "lakecore_maintenance"):
        _succeeds(api, dag, {})
    status, page = api.page("/lakecore/")
    _check(status == 200 and "shop.orders" in page, f"the page of the lake has its tables (status {status})")
    _check(AirflowApi(api.url).page("/lakecore/")[0] == 401, "a stranger sees no page")
    _kill_in_parts(stack, api)
    _check(_fsck(stack) == before, "fsck finds the tables clean after the kills")
    _down_and_up(stack)
    _check(_fsck(stack) == before, "the lake is there after down and up")


def _check_tools() -> None:
    missing = [
        tool for tool in ("podman", "buildah", "mmdebstrap", "go") if run("which", tool, check=False) == ""
    ]
    if missing:
        raise SystemExit(
            f"compose-test: {', '.join(missing)} missing; Debian: apt-get install podman buildah runc mmdebstrap golang"
        )


def _check_sizes() -> dict[str, int]:
    sizes = {}
    for name in ("lakecore", "spark", "airflow"):
        sizes[name] = int(
            run("podman", "image", "inspect", "-f", "{{.Size}}", f"localhost/lakecore-{name}:local")
        )
        _check(sizes[name] < _MAX_BYTES, f"the image {name} is smaller than 1.5 GB: {sizes[name]}")
    return sizes


def _start(stack: Stack) -> None:
    stack.down(volumes=True)
    _start_again(stack)


def _start_again(stack: Stack) -> None:
    """In the order of the conditions of compose.yaml."""
    stack.up("postgres", "store", "spark-master")
    stack.wait_healthy("postgres", "spark-master")
    stack.once("demo-lake")
    stack.once("airflow-init")
    stack.up(*_AIRFLOW, *_WORKERS)
    stack.wait_healthy(*_AIRFLOW, *_WORKERS)


def _check_confinement(stack: Stack) -> None:
    for service in (*_AIRFLOW, "spark-master", *_WORKERS):
        users = set(stack.podman("top", stack.name(service), "user").split()[1:])
        _check("root" not in users, f"no process of {service} is root: {users}")
        facts = stack.inspect(service)
        _check(facts["HostConfig"]["ReadonlyRootfs"], f"the root of {service} is read-only")
        _check(not facts["EffectiveCaps"], f"{service} has no capability: {facts['EffectiveCaps']}")


def _login(stack: Stack) -> AirflowApi:
    api = AirflowApi("http://127.0.0.1:8080")
    api.login("admin", stack.secrets["LAKECORE_ADMIN_PASSWORD"])
    api.wait("the DAG lakecore_nightly", lambda: api.has_dag("lakecore_nightly"), 120)
    return api


def _succeeds(api: AirflowApi, dag: str, conf: Mapping[str, Any]) -> str:
    api.unpause(dag)
    run_id = api.trigger(dag, conf)
    _await(api, dag, run_id)
    say(f"{dag} ran")
    return run_id


def _await(api: AirflowApi, dag: str, run_id: str) -> None:
    api.wait(f"the end of {dag}", lambda: api.run_state(dag, run_id) in ENDED, _RUN_S)
    tasks = api.tasks(dag, run_id)
    faults = [
        f"{task['task_id']} {task['map_index']}: {api.error(task)}"
        for task in tasks
        if task["state"] == "failed"
    ]
    _check(api.run_state(dag, run_id) == "success", f"{dag} ends well: {faults}")


def _compact(api: AirflowApi, conf: Mapping[str, Any]) -> list[dict[str, Any]]:
    run_id = _succeeds(api, "lakecore_nightly", conf)
    return [api.xcom(task) for task in api.tasks("lakecore_nightly", run_id) if task["task_id"] == "compact"]


def _fsck(stack: Stack) -> dict[str, str]:
    """A digest of each table's rows, after fsck by the command line in a container found nothing."""
    digests = {}
    for table in sorted(entry["name"] for entry in json.loads(_lakecore(stack, "--json", "tables"))):
        _lakecore(stack, "fsck", table)
        rows = sorted(_without_kind(line) for line in _lakecore(stack, "--json", "read", table).splitlines())
        digests[table] = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    return digests


def _without_kind(line: str) -> str:
    """A row without its kind: merging may make an insert of an update of a key that had no row."""
    row = json.loads(line)
    del row["_kind"]
    return json.dumps(row, sort_keys=True)


def _lakecore(stack: Stack, *arguments: str) -> str:
    return stack.compose("run", "--rm", "-T", "lakecore", *arguments)


def _kill_in_parts(stack: Stack, api: AirflowApi) -> None:
    """A Spark worker and then the scheduler are killed while tables are compacted; the run ends well."""
    run_id = api.trigger("lakecore_nightly", {"engine": "spark", "strategy": "full", "until": ""})
    running = lambda: any(task["state"] == "running" for task in api.tasks("lakecore_nightly", run_id))  # noqa: E731
    api.wait("a running task", running, 120, 0.2)
    for service in ("spark-worker-1", "scheduler"):
        stack.podman("kill", "-s", "KILL", stack.name(service))
        time.sleep(3)
        stack.podman("start", stack.name(service))
        say(f"{service} was killed and started again")
    _await(api, "lakecore_nightly", run_id)


def _down_and_up(stack: Stack) -> None:
    stack.down(volumes=False)
    _start_again(stack)
    api = _login(stack)
    _check(len(api.runs("lakecore_nightly")) >= 2, "Airflow remembers its runs after down and up")
    say("state survives down and up")


def _check(good: bool, text: str) -> None:
    if not good:
        raise AssertionError(text)


if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    try:
        sys.exit(main())
    except (AssertionError, RuntimeError, TimeoutError, subprocess.SubprocessError) as err:
        say(f"failed: {err}")
        sys.exit(1)
