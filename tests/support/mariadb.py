"""A MariaDB server of the test's own: Debian's package `mariadb-server`, in a new directory, on a free port."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.certificates import Authority

__all__ = ["MariadbServer", "mariadb_server"]

PASSWORD = "hush-of-mariadb"
_FIRST_WORDS = f"GRANT ALL ON *.* TO lake@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';"


@dataclass(frozen=True)
class MariadbServer:
    """A server with the user `lake`; each test makes a database of its own."""

    port: int
    trusted: Path
    """A PKCS #12 file with the certificate of the server's authority; its password is that of the user."""

    def fresh(self, name: str, character_set: str = "utf8mb4") -> str:
        """Make a new database; its JDBC address, without user and password."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET {character_set}")
        return f"jdbc:mysql://127.0.0.1:{self.port}/{name}"

    def connect(self, database: str | None = None) -> Any:
        import pymysql

        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="lake",
            password=PASSWORD,
            database=database,
            autocommit=True,
            connect_timeout=2,
        )


@contextmanager
def mariadb_server() -> Iterator[MariadbServer]:
    """Start a server, and stop it at the end. It runs as the user of the tests."""
    program = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin")
    assert program, "install Debian's package mariadb-server"
    folder = tempfile.mkdtemp(prefix="lakecore-mariadb-")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    user = ["--user=root"] if os.geteuid() == 0 else []
    authority = Authority.of("lakecore tests")
    certificate, key = authority.sign(Path(folder), "127.0.0.1")
    trusted = authority.key_store(Path(folder, "trusted.p12"), PASSWORD)
    data, log, first = (os.path.join(folder, name) for name in ("data", "log", "first.sql"))
    Path(first).write_text(_FIRST_WORDS)
    process = None
    try:
        made = ["mariadb-install-db", "--no-defaults", *user, f"--datadir={data}", "--skip-test-db"]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        words = [
            program,
            "--no-defaults",
            *user,
            f"--datadir={data}",
            f"--port={port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            f"--socket={folder}/socket",
            f"--pid-file={folder}/pid",
            f"--init-file={first}",
            f"--ssl-cert={certificate}",
            f"--ssl-key={key}",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=16M",
        ]
        with open(log, "w") as out:
            process = subprocess.Popen(words, stdout=out, stderr=out)
        server = MariadbServer(port, trusted)
        _await(server, process, log)
        yield server
    finally:
        if process is not None:
            process.terminate()
            process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _await(server: MariadbServer, process: subprocess.Popen[bytes], log: str) -> None:
    import pymysql

    for _ in range(150):
        assert process.poll() is None, Path(log).read_text()
        try:
            server.connect().close()
            return
        except pymysql.OperationalError:
            time.sleep(0.1)
    raise AssertionError(Path(log).read_text())
