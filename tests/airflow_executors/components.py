"""Airflow with Celery or LocalExecutor: the services of docker/compose.yaml as processes of this machine, each of which can be killed.

Settings, commands and the work of `airflow-init` are read from compose.yaml; what differs are the addresses, PostgreSQL
(Debian's, of the test's own), and the lake, which is a directory. The programs are those of an environment that has exactly
the packages of the image `airflow`, and lakecore's wheel.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import yaml

from tests.support.environments import ROOT, install_wheel, locked_environment
from tests.support.postgres import PASSWORD, PostgresServer
from tools.airflow_api import AirflowApi
from tools.airflow_server import free_ports, members

__all__ = ["CELERY", "LOCAL", "ServicesOfAirflow", "kill_session", "versions"]

CELERY, LOCAL = "CeleryExecutor", "LocalExecutor"
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
_BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"
_SECONDS = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "45",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "60",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "10",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "20",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "30",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "30",
}
"""Airflow notices lost workers, schedulers and triggerers after minutes by default."""


class ServicesOfAirflow:
    """A PostgreSQL database, a Redis where Celery is, and Airflow's components, each in a session of its own."""

    def __init__(
        self, home: Path, postgres: PostgresServer, executor: str, lakes: Mapping[str, Path], spark: str
    ) -> None:
        """`lakes`: the folders of the connections lake_default and unknown; `spark`: the master of both."""
        self.home = home
        self.executor = executor
        self.python = locked_environment("airflow-image", ROOT / "docker" / "locks" / "airflow.lock")
        install_wheel(self.python)
        self._compose = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]
        api, self._redis, *self._log_ports = free_ports(4)
        self.api = AirflowApi(f"http://127.0.0.1:{api}")
        self._port = api
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._left_behind: list[int] = []
        self._secrets = self._make_secrets()
        with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE airflow ENCODING 'UTF8' TEMPLATE template0")
        self.env = self._environment(postgres, lakes, spark)

    def _make_secrets(self) -> dict[str, str]:
        file = self.home / "env"
        subprocess.run([ROOT / "docker" / "init.sh", file], check=True, stdout=subprocess.DEVNULL)
        return dict(re.findall(r"^(LAKECORE_\w+)=(.+)$", file.read_text(), re.MULTILINE))

    def _filled(self, text: str) -> str:
        """A value of compose.yaml with its variables, as Compose reads it."""
        known = self._secrets | {"LAKECORE_EXECUTOR": self.executor}

        def value(match: re.Match[str]) -> str:
            name, kind, default = match.groups()
            return known[name] if kind != "-" else known.get(name, default)

        return _VARIABLE.sub(value, text).replace("$$", "$")

    def _environment(self, postgres: PostgresServer, lakes: Mapping[str, Path], spark: str) -> dict[str, str]:
        given = {
            name: self._filled(str(text))
            for name, text in self._compose["airflow-init"]["environment"].items()
            if "S3" not in name and name != "AIRFLOW_CONN_SPARK_DEFAULT"
        }
        database = f"lake:{PASSWORD}@127.0.0.1:{postgres.port}/airflow"
        bundles = [
            {"name": name, "classpath": _BUNDLE, "kwargs": {"path": str(self.home / name)}}
            for name in ("dags", "bundle")
        ]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        return {
            **inherited,
            **given,
            **_SECONDS,
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.home / "python"),
            "PYTHONDONTWRITEBYTECODE": "",
            "AIRFLOW_HOME": str(self.home / "airflow"),
            "AIRFLOW_CONN_UNKNOWN": json.dumps({"conn_type": "lakecore", "host": str(lakes["unknown"])}),
            "AIRFLOW__API__BASE_URL": self.api.url,
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.api.url}/execution/",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.home / "dags"),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{database}",
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+postgresql://{database}",
            "AIRFLOW__CELERY__BROKER_URL": f"redis://:{self._secrets['LAKECORE_REDIS_PASSWORD']}@127.0.0.1:{self._redis}/0",
            "LAKECORE_CATALOG__LAKE__WAREHOUSE": str(lakes["lake_default"]),
            "LAKECORE_CONFIG": str(self.home / "dags" / "lakecore.toml"),
            "LAKECORE_ADMIN": "admin",
            "LAKECORE_SPARK_MASTER": spark,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def initialize(self) -> None:
        """Do what the service `airflow-init` does: database, user, connection and pool."""
        (self.home / "airflow").mkdir()
        words = [self._filled(word) for word in self._compose["airflow-init"]["command"]]
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"airflow-init failed:\n{(done.stdout + done.stderr)[-4000:]}")

    def start_all(self) -> None:
        """Start everything but workers, and log in."""
        if self.executor == CELERY:
            self.start_redis()
        for service in ("api-server", "scheduler", "dag-processor", "triggerer"):
            self.start(service)

        def healthy() -> bool:
            self.check_alive()
            health = self.api.health()
            return all(health.get(part) == "healthy" for part in ("scheduler", "triggerer", "dag_processor"))

        self.api.wait("a healthy Airflow", healthy, 180)
        self.api.login("admin", self._secrets["LAKECORE_ADMIN_PASSWORD"])

    def start_redis(self) -> None:
        words = [self._filled(word) for word in self._compose["redis"]["command"]]
        folder = self.home / "redis"
        folder.mkdir(exist_ok=True)
        self._start(
            "redis", [*words, "--port", str(self._redis), "--bind", "127.0.0.1", "--dir", str(folder)]
        )

    def start(self, service: str) -> None:
        """Start a component of Airflow with its command in compose.yaml."""
        command = list(self._compose[service]["command"])
        if service == "api-server":
            command[command.index("--port") + 1] = str(self._port)
        trigger, worker = self._log_ports  # with LocalExecutor the scheduler serves the logs of tasks
        ports = {
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker),
        }
        self._start(service, command, ports)

    def start_worker(self, name: str) -> None:
        """Start a Celery worker and wait until Celery sees it, as its health check does."""
        port = {"AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(self._log_ports[1])}
        self._start(
            name, [*self._compose["celery-worker"]["command"], "--celery-hostname", f"{name}@here"], port
        )
        self.api.wait(f"the worker {name}", lambda: self._answers(name), 120)

    def _answers(self, name: str) -> bool:
        app = "airflow.providers.celery.executors.celery_executor.app"
        words = ["celery", "--app", app, "inspect", "ping", "--destination", f"{name}@here"]
        return subprocess.run(words, env=self.env, capture_output=True, check=False).returncode == 0

    def _start(self, name: str, command: list[str], extra: Mapping[str, str] | None = None) -> None:
        with (self.home / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [
                    str(self.python.parent / command[0]) if command[0] != "redis-server" else command[0],
                    *command[1:],
                ],
                env=self.env | (extra or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def check_alive(self) -> None:
        """Raise RuntimeError when a component has ended by itself."""
        ended = [name for name, process in self._processes.items() if process.poll() is not None]
        if ended:
            raise RuntimeError(f"{', '.join(ended)} ended by itself")

    def kill(self, name: str) -> int:
        """Kill a component with all of its processes, as the end of its container does; how many there were."""
        leader = self._processes.pop(name)
        count = kill_session(leader.pid)
        leader.wait(10)
        return count

    def kill_main_process(self, name: str) -> int:
        """Kill the first process of a component only; the session of the processes that it leaves behind."""
        leader = self._processes.pop(name)
        leader.kill()
        leader.wait(10)
        self._left_behind.append(leader.pid)
        return leader.pid

    def processes_of(self, name: str) -> list[int]:
        return members(self._processes[name].pid)

    def stop(self) -> None:
        for name in list(self._processes):
            self.kill(name)
        for session in self._left_behind:
            kill_session(session)

    def log_tails(self) -> str:
        texts = {
            path.name: path.read_text(errors="replace")[-3000:] for path in sorted(self.home.glob("*.log"))
        }
        return "\n".join(f"== {name}\n{text}" for name, text in texts.items())


def kill_session(session: int) -> int:
    """Kill all processes of a session; how many there were."""
    count = 0
    while alive := members(session):  # each round meets those that were started meanwhile
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                count += 1
        time.sleep(0.05)
    return count


def versions(python: Path, executor: str) -> dict[str, Any]:
    """The versions of what took part."""
    with_celery = ("apache-airflow-providers-celery", "celery", "kombu", "redis")
    names = ("apache-airflow", *(with_celery if executor == CELERY else ()), "lakecore")
    program = f"import json; from importlib.metadata import version as v; print(json.dumps({{n: v(n) for n in {names!r}}}))"
    found = subprocess.run([str(python), "-c", program], check=True, capture_output=True, text=True).stdout
    more = {"driver": sys.version.split()[0]}
    if executor != CELERY:
        return {**json.loads(found), **more}
    redis = subprocess.run(["redis-server", "--version"], check=True, capture_output=True, text=True).stdout
    return {**json.loads(found), "redis-server": redis.split()[2].removeprefix("v="), **more}
