"""A Spark Connect server on this machine, which tests kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.support.spark_classes import SHORT_LIVED, short_lived

__all__ = ["ConnectServer", "connect_server", "free_port"]

_ROOT = Path(__file__).resolve().parents[2]
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


@dataclass(frozen=True)
class ConnectServer:
    """A server of two cores."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def address(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """End the server and its Python workers at once, as the end of its machine does."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def connect_server(
    folder: Path, *, port: int | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[ConnectServer]:
    """Started once; its workers run this Python unless `environment` says otherwise."""
    number = port or free_port()
    home = str(Path(pyspark.__file__).parent)
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": number,
        "spark.driver.extraJavaOptions": short_lived(),
        "spark.python.daemon.module": "lakecore.spark.daemon",
        "spark.sql.shuffle.partitions": 2,
        "spark.ui.enabled": "false",
    }
    if environment is not None:
        del settings["spark.python.daemon.module"]
    confs = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    ours = {
        "SPARK_HOME": home,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(_ROOT),
        "SPARK_LAUNCHER_OPTS": SHORT_LIVED,
    }
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [
                f"{home}/bin/spark-submit",
                "--class",
                _CLASS,
                "--master",
                "local[2,4]",
                *confs,
                "spark-internal",
            ],
            env={**os.environ, **ours, **(environment or {})},
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    server = ConnectServer(process, number)
    try:
        while not _answers(number):
            assert process.poll() is None, (folder / "server.log").read_text()
            time.sleep(0.1)
        yield server
    finally:
        server.kill()


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
