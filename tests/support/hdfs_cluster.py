"""A name node and two data nodes of Hadoop in one JVM (tests/oracle/hdfs), on free ports."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from tests.support.oracle import SCRIPT

__all__ = ["HdfsCluster", "hdfs_cluster"]

_JVM = "-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@dataclass(frozen=True)
class HdfsCluster:
    """Options to reach it, and its root."""

    port: int
    commands: IO[str]
    answers: IO[str]
    options: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    def run(self, command: str) -> None:
        """Run a command of an administrator (tests/oracle/hdfs/HdfsCluster.java lists them)."""
        self.commands.write(f"{command}\n")
        self.commands.flush()
        assert self.answers.readline() == "ok\n", f"{command} failed"

    @contextmanager
    def safe_mode(self) -> Iterator[None]:
        """The name node refuses changes within the block."""
        self.run("safemode enter")
        try:
            yield
        finally:
            self.run("safemode leave")


@contextmanager
def hdfs_cluster() -> Iterator[HdfsCluster]:
    """It ends with the block, and its files are removed."""
    with tempfile.TemporaryDirectory(prefix="lakecore-hdfs-") as folder, tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [str(SCRIPT)],
            env=os.environ | {"ORACLE_HDFS": folder, "ORACLE_JVM": _JVM},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            encoding="utf-8",
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            if not port:
                log.seek(0)
                raise AssertionError(f"Hadoop did not start: {log.read()[-2000:]}")
            yield HdfsCluster(int(port), process.stdin, process.stdout)
        finally:
            process.stdin.close()  # the end of its input is its signal to stop
            process.wait(60)
            process.stdout.close()
