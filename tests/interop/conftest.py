"""A Hive metastore and the servers of JDBC catalogs, which the modules of one process share.
LAKECORE_HIVE_VERSION: which Java Paimon is in the metastore.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.hive_metastore import HiveServer, hive_server
from tests.support.sql_servers import SqlServers


@pytest.fixture(scope="session")
def hive() -> Iterator[HiveServer]:
    with hive_server(os.environ.get("LAKECORE_HIVE_VERSION", "1.4.2")) as server:
        server.oracle.call("catalog", server.java(), "show")  # the metastore runs from here on
        yield server


@pytest.fixture(scope="session")
def servers() -> Iterator[SqlServers]:
    with ExitStack() as running:
        yield SqlServers(running)
