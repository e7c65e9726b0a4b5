"""A standalone cluster of Spark on this machine, whose processes tests kill."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.support.spark_classes import SHORT_LIVED, short_lived

__all__ = ["Cluster", "cluster", "processes_below", "settings"]


def settings() -> dict[str, str]:
    """Return settings of a driver whose executors are killed."""
    return {
        "spark.driver.extraJavaOptions": short_lived(),
        "spark.executor.extraJavaOptions": short_lived(),
        "spark.executorEnv.PYTHONPATH": os.getcwd(),
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "600m",
        "spark.task.maxFailures": "20",
        "spark.excludeOnFailure.enabled": "false",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


@dataclass(frozen=True)
class Cluster:
    """The address of the master, and the processes of the workers."""

    master: str
    workers: Sequence[int]

    def executors(self) -> list[int]:
        """The JVMs of executors."""
        return [pid for pid, line in self._processes() if "CoarseGrainedExecutorBackend" in line]

    def python_workers(self) -> list[int]:
        """The Python daemons and workers of executors."""
        return [pid for pid, line in self._processes() if "pyspark" in line and "java" not in line]

    def with_units(self) -> list[tuple[int, int]]:
        """A worker and its executor, for each executor that has started Python."""
        return [
            (worker, pid)
            for worker in self.workers
            for pid, line in processes_below(worker)
            if "CoarseGrainedExecutorBackend" in line and list(processes_below(pid))
        ]

    def _processes(self) -> Iterator[tuple[int, str]]:
        for worker in self.workers:
            yield from processes_below(worker)


def processes_below(root: int) -> Iterator[tuple[int, str]]:
    """The processes below one, and their command lines."""
    for thread in Path(f"/proc/{root}/task").glob("*/children"):
        with suppress(OSError):
            for child in thread.read_text().split():
                line = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ")
                yield int(child), line.decode("utf-8", "replace")
                yield from processes_below(int(child))


@contextmanager
def cluster(workers: int, *, hosts: bool = False) -> Iterator[Cluster]:
    """A master, and so many workers of one core each; with `hosts`, each of them is a host of its own to Spark."""
    home = str(Path(pyspark.__file__).parent)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = [f"{home}/bin/spark-class", "org.apache.spark.deploy"]
    environment = {**os.environ, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"SPARK_DAEMON_JAVA_OPTS": short_lived(), "SPARK_LAUNCHER_OPTS": SHORT_LIVED}
    more = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        arguments = [command[0], f"{command[1]}.master.Master", "--host", "127.0.0.1", "--port", str(port)]
        started = [subprocess.Popen([*arguments, "--webui-port", "0"], **more)]  # type: ignore[call-overload]
        stack.callback(lambda: [one.kill() for one in started])
        for number in range(workers):
            folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            line = [command[0], f"{command[1]}.worker.Worker", "--cores", "1", "--memory", "1g", "-d", folder]
            if hosts:
                host = f"127.0.0.{number + 2}"
                line += ["--host", host]
                more["env"] = {**environment, "SPARK_LOCAL_IP": host}
            started.append(subprocess.Popen([*line, "--webui-port", "0", master], **more))  # type: ignore[call-overload]
        while not _answers(port):
            time.sleep(0.2)
        yield Cluster(master, [one.pid for one in started[1:]])


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
