"""Paimon's REST server of its own tests (tests/oracle/rest), in one JVM for each version of a process."""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

__all__ = ["TOKEN", "rest_server"]

TOKEN = "secret-word"
HERE = Path(__file__).resolve().parents[1] / "oracle" / "rest"


def rest_server(version: str, warehouse: str) -> str:
    """Serve a directory, and return the address; the warehouse has the name of the directory."""
    process = _process(version)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{warehouse}\n")
    process.stdin.flush()
    address = process.stdout.readline().strip()
    if not address.startswith("http"):
        raise RuntimeError(f"the JVM of Paimon's REST server of {version} ended")
    return address


@cache
def _process(version: str) -> subprocess.Popen[str]:
    flags = [
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    ]
    command = ["java", *flags, "-cp", _class_path(version), "RestServer", TOKEN]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    atexit.register(process.communicate)  # the end of input is its signal to exit
    return process


def _class_path(version: str) -> str:
    """The jars of the oracle of this version, which must have run once, those of the server, and its main."""
    home = Path(os.environ.get("ORACLE_HOME", Path.home() / ".cache" / "paimon-oracle"))
    jars, own = home / version / "jars", home / version / "rest"
    tests = own / f"paimon-core-{version}-tests.jar"
    if not tests.exists():
        maven = ["mvn", "-q", "-B"]
        pom = str(HERE / "pom.xml")
        _run([*maven, "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={own}"])
        artifact = f"org.apache.paimon:paimon-core:{version}:jar:tests"
        _run([*maven, "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={own}"])
    source = HERE / "RestServer.java"
    name = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    classes = HERE.parents[2] / ".cache" / "oracle" / f"rest-{version}-{name}"
    path = f"{classes}:{own}/*:{jars}/*"
    if not (classes / "RestServer.class").exists():
        _run(["javac", "-nowarn", "-Xlint:none", "-cp", path, "-d", str(classes), str(source)])
    return path


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
