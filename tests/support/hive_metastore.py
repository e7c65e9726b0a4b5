"""A Hive metastore with Derby in memory, and Java Paimon beside it, in one JVM (tests/oracle/hive)."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lakecore.catalog.hive.hive_catalog import HiveCatalog
from lakecore.catalog.registry import load_catalog
from tests.support.oracle import Oracle

__all__ = ["HiveServer", "emptied", "hive_server", "opened"]


@dataclass(frozen=True)
class HiveServer:
    """The metastore of a process; each test takes databases of its own. `oracle` runs in the same JVM."""

    port: int
    warehouse: Path
    oracle: Oracle

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        return {"metastore": "hive", "uri": self.uri}

    def java(self, **options: str) -> str:
        """The warehouse as the oracle's commands take it: Java's own HiveCatalog opens it."""
        every = {**self.options, **{key.replace("_", "-"): value for key, value in options.items()}}
        return "|".join([str(self.warehouse), *(f"{key}={value}" for key, value in every.items())])


@contextmanager
def hive_server(version: str = "1.4.2") -> Iterator[HiveServer]:
    """End the JVM with the block. It starts with the first call of the oracle."""
    with tempfile.TemporaryDirectory(prefix="lakecore-hive-") as folder, socket.socket() as free:
        warehouse = Path(folder) / "warehouse"
        warehouse.mkdir()
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        env = {"ORACLE_HIVE_PORT": str(port), "ORACLE_HIVE_WAREHOUSE": str(warehouse)}
        with Oracle(version, env) as oracle:
            yield HiveServer(port, warehouse, oracle)


def opened(hive: HiveServer, **options: str) -> HiveCatalog:
    """lakecore's catalog on the metastore."""
    catalog = load_catalog(
        hive.warehouse, **hive.options, **{k.replace("_", "-"): v for k, v in options.items()}
    )
    assert isinstance(catalog, HiveCatalog)
    return catalog


def emptied(catalog: HiveCatalog) -> None:
    """Drop all databases for good."""
    for name in set(catalog.list_databases()) - {"default"}:
        catalog.drop_database(name, cascade=True, purge=True)
