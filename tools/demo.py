"""`make demo`: a real Airflow compacts a small lake that Java Paimon wrote, on Spark, and shows what changed.

KEEP=1 leaves Airflow running until Enter is pressed, to look around in it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import survey
from tools.airflow_api import ENDED
from tools.airflow_server import AirflowServer

_ROOT = Path(__file__).resolve().parents[1]
_DEMO = _ROOT / ".demo"
_LAKE = _DEMO / "lake"
_DAG = "lakecore_nightly"
_RUN_TIMEOUT_S = 480
_SHOWN = frozenset({"running", "success", "failed", "skipped", "up_for_retry", "upstream_failed"})
_COLOURS = {"success": "green", "failed": "red", "up_for_retry": "yellow", "skipped": "yellow"}

Report = dict[str, Any]
Task = dict[str, Any]

console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)


def main() -> int:
    _unpack()
    try:
        with _airflow() as server:
            return _compact(server)
    except (RuntimeError, TimeoutError) as err:
        console.print(f"[red]The demo failed:[/red] {err}", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("Stopped. The lake is as it is; run it again to go on.")
        return 130


def _unpack() -> None:
    if _LAKE.exists():
        console.print(f"The lake is in {_LAKE} already: this run shows what is left to do.")
        console.print("[dim]rm -r .demo starts over[/dim]")
        return
    _DEMO.mkdir(exist_ok=True)
    with tarfile.open(_ROOT / "demo" / "lake.tar.xz") as archive:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Debian 12 has Python 3.11.2
        archive.extractall(_DEMO, **safe)
    console.print(f"Unpacked a lake of tables written by Java Paimon into {_LAKE}")


@contextmanager
def _airflow() -> Iterator[AirflowServer]:
    """Airflow with a connection to the lake; stopped at Ctrl-C too, or when the terminal is closed."""
    connection = {"conn_type": "lakecore", "host": str(_LAKE), "extra": {"spark_master": "local[*]"}}
    settings = _DEMO / "lakecore.toml"
    settings.write_text('[airflow.nightly]\nschedule = ""\n')
    environment = {"AIRFLOW_CONN_LAKE_DEFAULT": json.dumps(connection), "LAKECORE_CONFIG": str(settings)}
    server = AirflowServer(_DEMO / "airflow", environment)
    for sign in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.default_int_handler)
    began = time.monotonic()
    try:
        with console.status("Starting Airflow …") as status:
            server.start(lambda missing: status.update(f"Starting Airflow: waiting for {missing} …"))
            server.api.wait(f"the DAG {_DAG}", lambda: server.api.has_dag(_DAG), 120)
        console.print(f"Airflow is up after {time.monotonic() - began:.0f} s: {server.url} (admin / admin)")
        yield server
    finally:
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a second one must not leave it running
            signal.signal(sign, signal.SIG_IGN)
        with suppress(OSError):  # the terminal may be gone
            console.print("[dim]Airflow stops now.[/dim]")
        server.stop()


def _compact(server: AirflowServer) -> int:
    console.print(f"Running the DAG [bold]{_DAG}[/bold]: each table of the database shop, on Spark local[*]")
    server.api.unpause(_DAG)
    run_id = server.api.trigger(_DAG, {"database": "shop", "until": "", "engine": "spark"})
    state, tasks = _watch(server, run_id)
    reports = [server.api.xcom(task) for task in tasks if task["state"] == "success"]
    _print([report for report in reports if isinstance(report, dict)])
    for task in tasks:
        if reason := server.api.xcom(task, "refused"):
            console.print(f"[yellow]Left alone:[/yellow] {reason}")
        if task["state"] == "failed":
            console.print(f"[red]{_name(task)} failed:[/red] {server.api.error(task)}", soft_wrap=True)
    _conclude(state, [report for report in reports if isinstance(report, dict)])
    _survey(server)
    if os.environ.get("KEEP"):
        console.input(f"Airflow stays up at {server.url} (admin / admin); press Enter to stop it. ")
    return 0 if state == "success" else 1


def _survey(server: AirflowServer) -> None:
    """Look at every table, and say where the page of the lake is."""
    survey.run(survey.Job(history=True), load_catalog(str(_LAKE)))
    stays = "" if os.environ.get("KEEP") else "; KEEP=1 make demo leaves Airflow running"
    console.print(f"The health of every table: {server.url}/plugin/lake (Browse, Lake){stays}")


def _watch(server: AirflowServer, run_id: str) -> tuple[str, list[Task]]:
    """Print each task's state as it changes; the run's final state and its tasks."""
    seen: dict[tuple[str, int], str] = {}
    until = time.monotonic() + _RUN_TIMEOUT_S
    with console.status("waiting for the scheduler …") as status:
        while time.monotonic() < until:
            state = server.api.run_state(_DAG, run_id)
            tasks = server.api.tasks(_DAG, run_id)
            for task in tasks:
                _show(task, seen)
            running = [_name(task) for task in tasks if task["state"] == "running"]
            status.update(f"{', '.join(running)} …" if running else "waiting for the scheduler …")
            if state in ENDED:
                return state, tasks
            time.sleep(0.5)
    raise TimeoutError(f"the run was not done after {_RUN_TIMEOUT_S} s; see {server.log_file}")


def _show(task: Task, seen: dict[tuple[str, int], str]) -> None:
    key, now = (task["task_id"], task["map_index"]), str(task["state"])
    unnamed = now == "running" and task["map_index"] >= 0 and not task["rendered_map_index"]
    if now not in _SHOWN or seen.get(key) == now or unnamed:
        return
    seen[key] = now
    if now != "running":
        seconds = f" after {task['duration']:.1f} s" if task["duration"] else ""
        console.print(f"  {_name(task)}: [{_COLOURS.get(now, 'default')}]{now}[/]{seconds}")


def _name(task: Task) -> str:
    return " ".join(filter(None, (task["task_id"], task["rendered_map_index"])))


def _print(reports: list[Report]) -> None:
    if not reports:
        return
    table = Table(title="Before → after", header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("table", "files", "sorted runs", "levels", "bytes", "rows", "seconds", "proof"):
        words = column in ("table", "proof")
        table.add_column(column, justify="left" if words else "right", no_wrap=column == "table")
    for report in reports:
        table.add_row(
            report["table"],
            *(_shape(report, key) for key in ("files", "sorted_runs")),
            _levels(report),
            *(_shape(report, key) for key in ("bytes", "rows")),
            f"{report['seconds']:.1f}",
            "nothing to do" if report["nothing_to_do"] else "passed",
        )
    console.print(table)
    for report in reports:
        if report["proof"]:
            console.print(f"[bold]{report['table']}[/bold] {report['proof']}")


def _shape(report: Report, key: str) -> str:
    return _change(f"{report['before'][key]:,}", f"{report['after'][key]:,}")


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} → [bold]{after}[/bold]"


def _levels(report: Report) -> str:
    levels = (report["before"]["levels"], report["after"]["levels"])
    return _change(*(" ".join(f"L{level}" for level in sorted(found, key=int)) or "-" for found in levels))


def _conclude(state: str, reports: list[Report]) -> None:
    if state != "success":
        console.print(f"[red]The run ended as {state}.[/red] Logs: {_DEMO / 'airflow' / 'logs'}")
    elif all(report["nothing_to_do"] for report in reports):
        console.print(
            "[green]Nothing to do:[/green] every table was in good shape already; no snapshot was written."
        )
    else:
        console.print(
            "[green]Done.[/green] Each commit was proven before it was published. "
            "Run it again: it will find nothing to do."
        )


if __name__ == "__main__":
    sys.exit(main())
