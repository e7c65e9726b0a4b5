"""Java's query service and its client (tests/oracle/service), in one JVM of their own for all tests of a process."""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["java_answers", "java_service"]

ORACLE = Path(__file__).resolve().parents[1] / "oracle"
SOURCE = ORACLE / "service" / "KvService.java"


def _command() -> list[str]:
    """The command line of a JVM. The oracle of 2.0.0 must have run once, for it fetches the jars."""
    home = os.environ.get("ORACLE_HOME", str(Path.home() / ".cache" / "paimon-oracle"))
    jars = os.environ.get("PAIMON_JARS", f"{home}/2.0.0/jars")
    name = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    classes = ORACLE.parents[1] / ".cache" / "oracle" / f"kv-{name}"
    if not (classes / "KvService.class").exists():
        compiler = ["javac", "-nowarn", "-Xlint:none", "-cp", f"{jars}/*", "-d", str(classes), str(SOURCE)]
        subprocess.run(compiler, check=True)
    flags = [
        "-Xmx512m",
        "-XX:MaxDirectMemorySize=3g",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    ]
    flags += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.nio", "java.lang", "java.util")]
    return ["java", *flags, "-cp", f"{classes}:{jars}/*", "KvService"]


class _Session:
    """One JVM for all questions of a process, which starts with the first of them."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def say(self, lines: Sequence[str], answers: int) -> list[str]:
        """Send lines, and return as many lines of the answer."""
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    _command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
                atexit.register(self._process.communicate)  # the end of input is its signal to exit
            process = self._process
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.writelines(f"{line}\n" for line in lines)
            process.stdin.flush()
            found = [process.stdout.readline() for _ in range(answers)]
        if not all(found):
            raise RuntimeError(f"{lines[0]}: the JVM of Java's query service ended")
        return [line.rstrip("\n") for line in found]


_session = _Session()


@contextmanager
def java_service(table_path: str, servers: int) -> Iterator[None]:
    """Java's servers for a table; their addresses are in the table. One table is served at a time."""
    assert _session.say([f"serve {table_path.encode().hex()} {servers}"], 1) == ["ready"]
    try:
        yield
    finally:
        assert _session.say(["stop"], 1) == ["stopped"]


def java_answers(
    table_path: str, asked: Sequence[tuple[bytes, int, Sequence[bytes]]], *, keep: bool = False
) -> list[str]:
    """What Java's client got for each question: rows in hex, "-" for none, or "! " and an exception. With `keep` the client
    and its connections stay for the next call, until a question fails.
    """
    lines = [f"{part.hex()} {bucket} {','.join(map(bytes.hex, keys))}" for part, bucket, keys in asked]
    kept = " keep" if keep else ""
    return _session.say([f"ask {table_path.encode().hex()} {len(lines)}{kept}", *lines], len(lines))
