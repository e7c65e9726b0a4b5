"""A PostgreSQL server of the test's own: Debian's package `postgresql`, in a new directory, on a free port."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["PostgresServer", "postgres_server"]

PASSWORD = "hush-of-postgres"


@dataclass(frozen=True)
class PostgresServer:
    """A server with the user `lake`; each test makes a database of its own."""

    port: int

    def fresh(self, name: str) -> str:
        """Make a new database; its JDBC address, without user and password."""
        import psycopg

        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{name}"

    def dsn(self, name: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=lake password={PASSWORD} dbname={name}"


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server, and stop it at the end. It does not run as root: then it is the user `postgres`'s."""
    programs = os.path.dirname(shutil.which("postgres") or "")
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    programs = found[-1] if found else programs
    assert programs, "install Debian's package postgresql"
    folder = tempfile.mkdtemp(prefix="lakecore-postgres-")
    who: dict[str, Any] = {"cwd": folder}
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
        who |= {"user": "postgres", "group": "postgres", "extra_groups": []}
    secret = os.path.join(folder, "password")
    with open(secret, "w") as file:
        file.write(PASSWORD)
    os.chmod(secret, 0o644)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = os.path.join(folder, "data")
    log = os.path.join(folder, "log")
    process = None
    try:
        made = [
            f"{programs}/initdb",
            "-D",
            data,
            "-U",
            "lake",
            "-A",
            "scram-sha-256",
            f"--pwfile={secret}",
            "-N",
        ]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, **who)
        with open(log, "w") as out:
            words = [
                f"{programs}/postgres",
                "-D",
                data,
                "-p",
                str(port),
                "-k",
                folder,
                "-h",
                "127.0.0.1",
                "-F",
            ]
            process = subprocess.Popen(words, stdout=out, stderr=out, **who)
        _await(PostgresServer(port), process, log)
        yield PostgresServer(port)
    finally:
        if process is not None:
            process.send_signal(signal.SIGINT)  # does not wait for clients that are still connected
            process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _await(server: PostgresServer, process: subprocess.Popen[bytes], log: str) -> None:
    import psycopg

    for _ in range(300):
        assert process.poll() is None, Path(log).read_text()
        try:
            psycopg.connect(server.dsn("postgres"), connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise AssertionError(Path(log).read_text())
