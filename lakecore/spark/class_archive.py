"""This module makes a class archive for the driver's JVM: Spark's classes are loaded and checked once, and
mapped by later sessions.

Without it a session's JVM spends 2.6 CPU seconds before it is ready and 0.85 in its first job, with it 1.35
and 0.5 (Java 17, Spark 4.2). The file has 65 MB and lies in `$XDG_CACHE_HOME/lakecore` (or `~/.cache`), one
for each Java and Spark. The JVM itself checks that Java and Spark's jars are those of the archive; if not, it
starts without, as it does when the file is gone.

`python -m lakecore.spark.class_archive FILE` is the process that runs a session and leaves its archive.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from lakecore.errors import UnavailableError
from lakecore.spark.java import find_java, java_version

__all__ = ["archive_file", "make_archive", "share_options"]

_SECONDS = 600
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")  # a JVM reports about archives on standard output


def archive_file(java: Path) -> Path:
    """Return where the archive for this Java and the installed Spark is, or would be."""
    spark = importlib.util.find_spec("pyspark")
    parts = (java, java_version(java), importlib.metadata.version("pyspark"), spark.origin if spark else "")
    key = hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "lakecore" / f"spark-{key}.jsa"


def share_options(java: Path) -> tuple[str, ...]:
    """Return the options of a JVM that uses the archive; none when there is no archive."""
    archive = archive_file(java)
    return (f"-XX:SharedArchiveFile={archive}", *_QUIET) if archive.is_file() else ()


def make_archive() -> tuple[Path, bool]:
    """Run a short Spark session that leaves its archive (about 10 s), unless there is one. It returns the
    path, and whether the session ran.

    The archive appears completely or not at all. Raises InvalidInputError without Java, UnavailableError when
    the session fails or the cache cannot be written.
    """
    archive = archive_file(find_java())
    if archive.is_file():
        return archive, False
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
            path = Path(scratch) / archive.name
            _run_session(path)
            path.replace(archive)
    except OSError as err:
        raise UnavailableError(
            f"the class archive {archive} cannot be written: {err}; free disk space, or set "
            "XDG_CACHE_HOME to a writable directory"
        ) from err
    return archive, True


def _run_session(path: Path) -> None:
    command = [sys.executable, "-m", "lakecore.spark.class_archive", str(path)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired as err:
        raise UnavailableError(f"a Spark session did not end within {_SECONDS} s; try again") from err
    if result.returncode or not path.is_file():
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise UnavailableError(f"a Spark session ended without writing its class archive: {last}")


def _session(path: Path) -> None:
    """Run a session with a unit on every core, as a job has; its JVM writes the archive while it ends."""
    from lakecore.spark.executor import SparkExecutor
    from lakecore.spark.session import DRIVER_JVM

    options = " ".join((*DRIVER_JVM, f"-XX:ArchiveClassesAtExit={path}", *_QUIET))
    executor = SparkExecutor(master="local[*]", conf={"spark.driver.extraJavaOptions": options})
    with executor:
        for answer in executor.run(abs, range(executor.parallelism)):
            if isinstance(answer, BaseException):
                raise answer
        jvm = executor.jvm_process
    if jvm is not None and jvm.stdin is not None:
        jvm.stdin.close()  # it ends with its parent, and that is what this says
        jvm.wait()


if __name__ == "__main__":
    _session(Path(sys.argv[1]))
