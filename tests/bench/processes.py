"""Child processes of the benches: spoken to line by line, their CPU and memory read from /proc, descendants included."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Contestant", "Measured", "cpu_seconds"]

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measured:
    """One task: the contestant's own report; wall seconds and CPU seconds seen from outside."""

    report: dict[str, Any]
    seconds: float
    cpu: float


class Contestant:
    """A process that takes a task a line on stdin and answers each with a line of JSON."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self._log = log
        self._cpu = 0.0
        self._command = command
        self._process: subprocess.Popen[str] | None = None

    def first(self, task: str) -> Measured:
        """Start the process and give it its first task: seconds and CPU count from the start."""
        started = time.monotonic()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log.open("w"),
            text=True,
        )
        done = self.ask(task)
        return Measured(done.report, time.monotonic() - started, self._cpu)

    def ask(self, task: str) -> Measured:
        """Raises RuntimeError with the end of the log when the process died."""
        before, started = self._cpu, time.monotonic()
        process = self._running
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(task + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        seconds = time.monotonic() - started
        if not line.strip():
            tail = "\n".join(self._log.read_text().splitlines()[-20:])
            raise RuntimeError(f"{self.name} gave no answer to {task}:\n{tail}")
        self._cpu = sum(cpu_seconds(pid) for pid in self._tree())
        return Measured(json.loads(line), seconds, self._cpu - before)

    def peaks(self) -> dict[str, int]:
        """Peak resident bytes by kind of process: the JVM, and the largest Python process."""
        peaks: dict[str, int] = {}
        for pid in self._tree():
            name, size = _peak(pid)
            kind = "jvm" if name == "java" else "python"
            peaks[kind] = max(peaks.get(kind, 0), size)
        return peaks

    def close(self) -> None:
        """End of input is the signal to exit."""
        self._running.communicate(timeout=60)

    @property
    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, f"{self.name} was not started: call first"
        return self._process

    def _tree(self) -> Iterator[int]:
        waiting = [self._running.pid]
        while waiting:
            pid = waiting.pop()
            yield pid
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                waiting += map(int, _text(task).split())


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and of its children that ended."""
    fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def _peak(pid: int) -> tuple[str, int]:
    lines = (line.partition(":") for line in _text(Path(f"/proc/{pid}/status")).splitlines())
    status = {key: value.strip() for key, _, value in lines}
    return status.get("Name", ""), int(status.get("VmHWM", "0 kB").split()[0]) * 1024


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process ended meanwhile
        return ""
