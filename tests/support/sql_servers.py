"""The servers of JDBC catalogs in tests, and the options of a catalog on a new database of one of them."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.support import mariadb, postgres

__all__ = ["SqlServers", "options_of"]


@dataclass
class SqlServers:
    """Servers start with the first test that needs them."""

    running: ExitStack

    @cached_property
    def postgres(self) -> postgres.PostgresServer:
        return self.running.enter_context(postgres.postgres_server())

    @cached_property
    def mariadb(self) -> mariadb.MariadbServer:
        return self.running.enter_context(mariadb.mariadb_server())


def options_of(
    kind: str, tmp_path: Path, servers: SqlServers, character_set: str = "utf8mb4"
) -> dict[str, str]:
    """The options of a catalog with a lock; none for a catalog of files. The character set is MariaDB's."""
    if kind == "filesystem":
        return {}
    lock = {"lock.enabled": "true", "lock-check-max-sleep": "200 ms", "metastore": "jdbc"}
    name = uuid.uuid4().hex
    if kind == "sqlite":
        return {**lock, "uri": f"jdbc:sqlite:{tmp_path}/{name}.db"}
    if kind == "postgresql":
        uri, password = servers.postgres.fresh(name), postgres.PASSWORD
    else:
        uri, password = servers.mariadb.fresh(name, character_set), mariadb.PASSWORD
    return {**lock, "uri": uri, "jdbc.user": "lake", "jdbc.password": password}
