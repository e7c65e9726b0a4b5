"""Counts the changes of a disk that all processes of a job make, and stops the job at a chosen one.

The job has the environment of `environment`: each of its Python processes then counts what the functions of `os` change
below `<folder>/watched`, and its JVM what Hadoop's file system changes there (tests/oracle/spark). Nothing is counted
before `arm`. The process that is about to make change number N writes it to the file `fired` before it makes it. Then
it kills itself with SIGKILL (`alone`), or waits, as does every other that is about to make a change, until the test has
killed all of them (`all`). A JVM always waits.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Counted", "install", "spark_settings"]

_FOLDER = "LAKECORE_COUNTED_CHANGES"
_COUNTING = threading.Lock()
_ROOT = Path(__file__).parents[2]
_JAVA = _ROOT / "tests" / "oracle" / "spark" / "CountedFileSystem.java"
_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


class Counted:
    """The side of the test. What is in `watched` is counted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.watched = folder / "watched"
        (self.watched / "tmp").mkdir(parents=True)
        (folder / "site").mkdir()
        hook = "from tests.support import counted_changes\n\ncounted_changes.install()\n"
        (folder / "site" / "sitecustomize.py").write_text(hook)

    def environment(self) -> dict[str, str]:
        """That of the job, whose directory for temporary files is watched, too."""
        path = os.pathsep.join([f"{self._folder / 'site'}", f"{_ROOT}"])
        return {
            **os.environ,
            _FOLDER: f"{self._folder}",
            "PYTHONPATH": path,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": f"{self.watched / 'tmp'}",
        }

    def arm(self, at: int | str, *, everything: bool) -> None:
        """Count from now on, and stop at change number `at`, or at the first whose path has this text: the whole job,
        or the process that makes it.
        """
        for name in ("changes", "fired"):
            (self._folder / name).unlink(missing_ok=True)
        fresh = self._folder / "armed.new"
        fresh.write_text(f"{at} {'all' if everything else 'alone'}")
        fresh.rename(self._folder / "armed")

    def disarm(self) -> None:
        """Count no more, and forget the change at which the job was stopped."""
        for name in ("armed", "fired"):
            (self._folder / name).unlink(missing_ok=True)

    def fired(self) -> str | None:
        """The change at which the job was stopped: its process (`jvm` or `python`), its kind and its path."""
        try:
            return (self._folder / "fired").read_text() or None
        except FileNotFoundError:
            return None

    def changes(self) -> list[str]:
        """All changes since `arm`."""
        try:
            return (self._folder / "changes").read_text().splitlines()
        except FileNotFoundError:
            return []


def spark_settings() -> dict[str, str]:
    """Settings of the session of the job, so that its JVM counts."""
    from lakecore.spark.session import DRIVER_JVM

    name = hashlib.sha256(_JAVA.read_bytes()).hexdigest()[:16]
    classes = _ROOT / ".cache" / "oracle" / f"spark-{name}"
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None
    jars = Path(str(spark.origin)).parent / "jars"
    if not (classes / "CountedFileSystem.class").exists():
        command = ["javac", "-nowarn", "-Xlint:none", "-cp", f"{jars}/*", "-d", f"{classes}", f"{_JAVA}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {
        "spark.driver.extraClassPath": f"{classes}",
        "spark.driver.extraJavaOptions": " ".join(DRIVER_JVM),
        "spark.hadoop.fs.file.impl": "CountedFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": _MANAGER,
    }


def install() -> None:
    """Count in this process, if its job is counted."""
    folder = os.environ.get(_FOLDER)
    if folder is None:
        return
    for name in ("link", "mkdir", "remove", "rename", "replace", "rmdir", "unlink"):
        setattr(os, name, _counted(folder, name, getattr(os, name)))
    opened = os.open

    def counted_open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            _change(folder, "create", _place(path, dir_fd))
        return opened(path, flags, mode, dir_fd=dir_fd)

    os.open = counted_open


def _counted(folder: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*paths: Any, **more: Any) -> Any:
        within = more.get("dst_dir_fd", more.get("dir_fd"))
        target = paths[1] if name in ("link", "rename", "replace") else paths[0]
        _change(folder, name, _place(target, within))
        return function(*paths, **more)

    return counted


def _place(path: Any, within: int | None) -> str:
    text = os.fsdecode(path)
    return text if within is None else f"{os.readlink(f'/proc/self/fd/{within}')}/{text}"


def _change(folder: str, what: str, path: str) -> None:
    if not path.startswith(f"{folder}/watched/"):
        return
    try:
        with open(f"{folder}/armed") as file:
            at, scope = file.read().split()
    except FileNotFoundError:
        return
    line = f"{what} {path.removeprefix(f'{folder}/watched/')}"
    with _COUNTING, open(f"{folder}/changes", "a+b") as log:  # a lock of a file is that of all threads
        fcntl.lockf(log, fcntl.LOCK_EX)
        log.seek(0)
        count = log.read().count(b"\n") + 1
        log.write(f"{line}\n".encode())
        log.flush()
        waits = os.path.exists(f"{folder}/fired")
        if not waits and (count == int(at) if at.isdigit() else at in path):
            with open(f"{folder}/fired", "w") as file:
                file.write(f"python {line}")
            if scope == "alone":
                os.kill(os.getpid(), signal.SIGKILL)
        elif scope == "alone" or not waits:
            return
    while True:
        time.sleep(600)
