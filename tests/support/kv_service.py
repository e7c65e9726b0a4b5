"""Java's query service and its client (tests/oracle/service), in a JVM of their own."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["java_answers", "java_service"]

ORACLE = Path(__file__).resolve().parents[1] / "oracle"
SOURCE = ORACLE / "service" / "KvService.java"


def _command(*args: object) -> list[str]:
    """The command line of a JVM. The oracle of 2.0.0 must have run once, for it fetches the jars."""
    home = os.environ.get("ORACLE_HOME", str(Path.home() / ".cache" / "paimon-oracle"))
    jars = os.environ.get("PAIMON_JARS", f"{home}/2.0.0/jars")
    name = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    classes = ORACLE.parents[1] / ".cache" / "oracle" / f"kv-{name}"
    if not (classes / "KvService.class").exists():
        compiler = ["javac", "-nowarn", "-Xlint:none", "-cp", f"{jars}/*", "-d", str(classes), str(SOURCE)]
        subprocess.run(compiler, check=True)
    flags = ["-Xmx512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    flags += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.nio", "java.lang", "java.util")]
    return ["java", *flags, "-cp", f"{classes}:{jars}/*", "KvService", *map(str, args)]


@contextmanager
def java_service(table_path: str, servers: int) -> Iterator[None]:
    """Java's servers for a table; their addresses are in the table."""
    process = subprocess.Popen(
        _command("serve", table_path, servers), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.communicate()


def java_answers(table_path: str, asked: Sequence[tuple[bytes, int, Sequence[bytes]]]) -> list[str]:
    """What Java's client got for each question: rows in hex, "-" for none, or "! " and an exception."""
    lines = (f"{part.hex()} {bucket} {','.join(map(bytes.hex, keys))}\n" for part, bucket, keys in asked)
    command = _command("ask", table_path)
    done = subprocess.run(command, input="".join(lines), stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()
