"""A private Airflow on this machine: configure, start, stop. Used by the demo and by tests."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from tools.airflow_api import AirflowApi

__all__ = ["VIEWER", "AirflowServer", "free_ports", "members"]

_ROOT = Path(__file__).resolve().parents[1]
_BIN = Path(sys.executable).parent
_USER, _PASSWORD = "admin", "admin"
VIEWER = "viewer"
"""A user who may look at everything and change nothing; the password is the name."""
_HEALTHY_AFTER_S = 300
_STOPPED_AFTER_S = 12
_WAITS_FOR_LOCK_S = 20
"""Airflow waits five seconds by default, after which a busy machine ends the scheduler. When two tasks start at the same moment, the
API server of Airflow 3.3 waits so long for itself: the second one waits for the lock of SQLite where the first one
would go on. Then the task asks again."""
_PARTS = ("metadatabase", "scheduler", "triggerer", "dag_processor")


def _bytecode() -> dict[str, str]:
    """Every component and task imports a thousand modules: compile them once, wherever that was forbidden."""
    if not os.environ.get("PYTHONDONTWRITEBYTECODE"):
        return {}
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(_ROOT / ".cache" / "pycache")}


def free_ports(count: int) -> list[int]:
    """Ports that nobody has, all different: each is taken until all are known."""
    with ExitStack() as ends:
        probes = [ends.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


class AirflowServer:
    """`airflow standalone` (SQLite, LocalExecutor) in its own home, on a free port of the loopback.

    Settings of another Airflow in this process's environment are not passed on. One server per home: one that
    a killed process left behind is stopped first.
    """

    def __init__(self, home: Path, extra_env: Mapping[str, str]) -> None:
        self.home = home
        self.port, *self._log_ports = free_ports(3)
        self.api = AirflowApi(f"http://127.0.0.1:{self.port}")
        self.log_file = home / "standalone.log"
        self._pid_file = home / "standalone.pid"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        self.env = inherited | _bytecode() | self._settings() | dict(extra_env)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.api.url

    def _settings(self) -> dict[str, str]:
        settings = {
            "database__sql_alchemy_conn": f"sqlite:///{self.home}/airflow.db?timeout={_WAITS_FOR_LOCK_S}",
            "core__dags_folder": str(_ROOT / "dags"),
            "core__plugins_folder": str(_ROOT / "plugins"),
            "core__load_examples": "False",
            "core__parallelism": "2",
            "core__test_connection": "Enabled",
            "core__simple_auth_manager_users": f"{_USER}:admin,{VIEWER}:viewer",
            "core__simple_auth_manager_passwords_file": str(self.home / "passwords.json"),
            "core__execution_api_server_url": f"{self.url}/execution/",
            "api__port": str(self.port),
            "api__host": "127.0.0.1",
            "api__base_url": self.url,
            "api__workers": "1",
            "api_auth__jwt_secret": "only-for-a-private-airflow-on-the-loopback-of-one-machine-0123456789abcdef",
            "logging__worker_log_server_port": str(self._log_ports[0]),
            "logging__trigger_log_server_port": str(self._log_ports[1]),
            "workers__execution_api_timeout": "60",  # 5: a busy machine then loses tasks that have just begun
            "workers__min_heartbeat_interval": "1",  # seconds until an ended or killed task is noticed
            "dag_processor__parsing_processes": "1",
            "dag_processor__disable_bundle_versioning": "True",
        }
        return {
            "PATH": f"{_BIN}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYTHONPATH": os.pathsep.join(
                filter(None, (str(_ROOT), str(_ROOT / "operators"), os.environ.get("PYTHONPATH", "")))
            ),
            "AIRFLOW_HOME": str(self.home),
        } | {f"AIRFLOW__{name.upper()}": value for name, value in settings.items()}

    def start(self, tell: Callable[[str], None] = lambda _: None) -> None:
        """Start every component and wait until all are healthy. `tell` hears what is waited for.

        Raises RuntimeError with the end of the log when one of them does not come up.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        self._stop_left_over()
        (self.home / "passwords.json").write_text(json.dumps({_USER: _PASSWORD, VIEWER: VIEWER}))
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [str(_BIN / "airflow"), "standalone"],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._pid_file.write_text(str(self._process.pid))
        self._wait_healthy(tell)
        self.api.login(_USER, _PASSWORD)

    def _wait_healthy(self, tell: Callable[[str], None]) -> None:
        assert self._process is not None
        until = time.monotonic() + _HEALTHY_AFTER_S
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise RuntimeError(f"Airflow stopped while starting:\n{self._log_tail()}")
            health = self.api.health()
            missing = [part for part in _PARTS if health.get(part) != "healthy"]
            if not missing:
                return
            tell(", ".join(missing) if health else "database and API server")
            time.sleep(0.5)
        raise RuntimeError(f"Airflow was not healthy after {_HEALTHY_AFTER_S} s:\n{self._log_tail()}")

    def _log_tail(self) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines()
        return "\n".join([*lines[-30:], f"(all of it: {self.log_file})"])

    def processes(self) -> list[int]:
        """The ids of its living processes, those of tasks included."""
        return [] if self._process is None else members(self._process.pid)

    def stop(self) -> None:
        """Stop all of its processes; safe to call twice."""
        if self._process is None:
            return
        _stop_session(self._process.pid)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        self._process = None
        self._pid_file.unlink(missing_ok=True)

    def _stop_left_over(self) -> None:
        """Two schedulers on one database would run everything twice."""
        with suppress(FileNotFoundError, ValueError):
            pid = int(self._pid_file.read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            if "standalone" in command:
                _stop_session(pid)

    def __enter__(self) -> AirflowServer:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _stop_session(leader: int) -> None:
    """End every process of the session: kindly, then, of those that stay, not."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for pid in members(leader):
            with suppress(ProcessLookupError):
                os.kill(pid, sign)
        until = time.monotonic() + _STOPPED_AFTER_S
        while members(leader) and time.monotonic() < until:
            time.sleep(0.1)


def members(session: int) -> list[int]:
    """Living processes of a session, children that made their own process group included."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            state, _, _, member_of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(member_of) == session and state != "Z":
                found.append(int(entry.name))
    return found
