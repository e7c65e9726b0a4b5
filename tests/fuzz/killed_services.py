"""A query service in a process of its own, which is killed and started again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["KilledService"]

LAKECORE = str(Path(sys.executable).with_name("lakecore"))


class KilledService:
    """It runs until the context ends. `restarts` counts each kill, and each start after it: it is odd
    while no service runs.
    """

    def __init__(self, warehouse: str, table: str) -> None:
        self._command = [
            LAKECORE,
            "--warehouse",
            warehouse,
            "--json",
            "query-service",
            table,
            "--interval",
            "0.1",
        ]
        self._process: subprocess.Popen[str] | None = None
        self.kills = 0
        self.restarts = 0

    def __enter__(self) -> KilledService:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end(gently=False)

    def restart(self, *, gently: bool) -> None:
        self.restarts += 1
        self.kills += 1
        self._end(gently=gently)
        self._start()
        self.restarts += 1

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError(f"{' '.join(self._command)}: it ended at once")

    def _end(self, *, gently: bool) -> None:
        assert self._process is not None
        if gently:
            self._process.terminate()
        else:
            self._process.kill()
        self._process.communicate()
